#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "engine/simulate/trace/trace.h"

namespace sluice::engine {

// Makes requests of the lines of one format. Times are as the trace counts them, in seconds; what
// is wrong is told without the place.
class RowParser {
 public:
  virtual ~RowParser() = default;
  virtual absl::Status Parse(std::string_view line, TraceRequest* request) = 0;
};

// The format of a text that begins with this line; InvalidArgument when it is none that is known.
absl::StatusOr<TraceFormat> FormatOf(std::string_view first_line);

// `first_line` is the header of a CSV. `format` is not kAuto.
absl::StatusOr<std::unique_ptr<RowParser>> MakeRowParser(TraceFormat format,
                                                         std::string_view first_line);

// Of the formats with a header, the first line is no request.
inline bool HasHeader(TraceFormat format) { return format != TraceFormat::kMooncake; }

// The numbers in a row. InvalidArgument, naming the field, for what is none in [low, high].
absl::StatusOr<double> NumberIn(std::string_view field, std::string_view text, double low,
                                double high);
// A whole one of tokens.
absl::StatusOr<int32_t> TokensIn(std::string_view field, std::string_view text);
// "field "x": "value" problem", with a value of any length and any bytes.
absl::Status FieldError(std::string_view field, std::string_view value, std::string_view problem);

std::unique_ptr<RowParser> MakeMooncakeParser();

}  // namespace sluice::engine
