#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/simulate/trace/row_parser.h"

namespace sluice::engine {

// Parts a line at its commas; a field may stand in double quotes, in which two stand for one.
// Spaces around fields are dropped. InvalidArgument when a quote is not closed.
absl::Status SplitCsv(std::string_view line, std::vector<std::string>* fields);

// Columns are found by their names in the header, wherever they stand. InvalidArgument when one is
// missing.
absl::StatusOr<std::unique_ptr<RowParser>> MakeAzureParser(std::string_view header);
absl::StatusOr<std::unique_ptr<RowParser>> MakeBurstGptParser(std::string_view header);

}  // namespace sluice::engine
