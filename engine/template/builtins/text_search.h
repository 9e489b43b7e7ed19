#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

// Searches whose time is linear in the text whatever the pattern: both come from hostile templates.
namespace sluice::engine::jinja {

constexpr size_t kNotFound = std::string_view::npos;

// Byte offset of the first occurrence at or after `from`.
size_t FindFirst(std::string_view text, std::string_view pattern, size_t from = 0);
// Byte offset of the last occurrence.
size_t FindLast(std::string_view text, std::string_view pattern);

// Python's split and rsplit at `separator` (not empty), with at most `limit` cuts when it isn't
// negative.
std::vector<std::string_view> SplitAt(std::string_view text, std::string_view separator,
                                      int64_t limit, bool from_right);
// The same at runs of white space.
std::vector<std::string_view> SplitAtSpace(std::string_view text, int64_t limit, bool from_right);

// Python's splitlines.
std::vector<std::string_view> SplitLines(std::string_view text, bool keep_ends);

}  // namespace sluice::engine::jinja
