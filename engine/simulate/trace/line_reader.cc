#include "engine/simulate/trace/line_reader.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace sluice::engine {

LineReader::LineReader(std::istream* in, std::string name)
    : in_(*in), name_(std::move(name)), buffer_(kLineBytesMax + 1) {}

absl::StatusOr<bool> LineReader::Next(std::string_view* line) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  while (true) {
    ++line_;
    in_.getline(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
    auto count = static_cast<size_t>(in_.gcount());
    if (in_.bad()) return InvalidArgument(name_ + ": can't be read");
    if (in_.fail() && in_.eof()) return false;
    if (in_.fail()) return Error(absl::StrCat("longer than ", kLineBytesMax, " bytes"));
    if (!in_.eof()) --count;  // the line's end is counted, too
    std::string_view text(buffer_.data(), count);
    if (line_ == 1 && text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
    *line = ToStd(absl::StripAsciiWhitespace(ToAbsl(text)));
    if (!line->empty()) return true;
    if (in_.eof()) return false;
  }
}

absl::Status LineReader::Error(std::string_view what) const {
  return InvalidArgument(absl::StrCat(name_, ":", line_, ": ", ToAbsl(what)));
}

}  // namespace sluice::engine
