#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace sluice::engine {

// The lines of a text, read one at a time, none longer than kLineBytesMax.
class LineReader {
 public:
  // `name` is for errors; `in` outlives the reader.
  LineReader(std::istream* in, std::string name);

  // The next line that is not blank, without its end; false when there is none. `line` holds until
  // the next call.
  absl::StatusOr<bool> Next(std::string_view* line);
  // InvalidArgument, with the place of the last line.
  absl::Status Error(std::string_view what) const;

  static constexpr size_t kLineBytesMax = size_t{1} << 20;

 private:
  std::istream& in_;
  const std::string name_;
  std::vector<char> buffer_;
  int64_t line_ = 0;
};

}  // namespace sluice::engine
