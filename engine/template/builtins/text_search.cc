#include "engine/template/builtins/text_search.h"

#include <algorithm>
#include <cstring>

#include "engine/template/value/text.h"

namespace sluice::engine::jinja {

size_t FindFirst(std::string_view text, std::string_view pattern, size_t from) {
  if (from > text.size()) return kNotFound;
  if (pattern.empty()) return from;
  const void* found =
      memmem(text.data() + from, text.size() - from, pattern.data(), pattern.size());
  return found ? static_cast<size_t>(static_cast<const char*>(found) - text.data()) : kNotFound;
}

size_t FindLast(std::string_view text, std::string_view pattern) {
  const std::string reversed(text.rbegin(), text.rend());
  const std::string reversed_pattern(pattern.rbegin(), pattern.rend());
  const size_t found = FindFirst(reversed, reversed_pattern);
  return found == kNotFound ? kNotFound : text.size() - found - pattern.size();
}

std::vector<std::string_view> SplitAt(std::string_view text, std::string_view separator,
                                      int64_t limit, bool from_right) {
  std::vector<std::string_view> parts;
  if (!from_right) {
    size_t begin = 0;
    for (size_t at; limit != 0 && (at = FindFirst(text, separator, begin)) != kNotFound; --limit) {
      parts.push_back(text.substr(begin, at - begin));
      begin = at + separator.size();
    }
    parts.push_back(text.substr(begin));
    return parts;
  }
  const std::string reversed(text.rbegin(), text.rend());
  const std::string reversed_separator(separator.rbegin(), separator.rend());
  size_t begin = 0;
  for (size_t at; limit != 0 && (at = FindFirst(reversed, reversed_separator, begin)) != kNotFound;
       --limit) {
    parts.push_back(text.substr(text.size() - at, at - begin));
    begin = at + separator.size();
  }
  parts.push_back(text.substr(0, text.size() - begin));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> SplitAtSpace(std::string_view text, int64_t limit, bool from_right) {
  std::vector<std::string_view> parts;
  text = Strip(text, nullptr, from_right ? StripSides::kRight : StripSides::kLeft);
  while (!text.empty()) {
    if (limit-- == 0) {
      parts.push_back(Strip(text, nullptr, from_right ? StripSides::kLeft : StripSides::kRight));
      if (parts.back().empty()) parts.pop_back();
      break;
    }
    size_t word_begin = 0, word_end = text.size();
    if (from_right) {
      for (size_t at = text.size(); at > 0;) {
        const size_t end = at--;
        while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
        size_t next = at;
        if (IsSpace(NextCodePoint(text, &next))) {
          word_begin = end;
          break;
        }
      }
      parts.push_back(text.substr(word_begin));
      text = Strip(text.substr(0, word_begin), nullptr, StripSides::kRight);
      continue;
    }
    for (size_t at = 0; at < text.size();) {
      const size_t start = at;
      if (IsSpace(NextCodePoint(text, &at))) {
        word_end = start;
        break;
      }
    }
    parts.push_back(text.substr(0, word_end));
    text = Strip(text.substr(word_end), nullptr, StripSides::kLeft);
  }
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> SplitLines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = at;
    const char32_t c = NextCodePoint(text, &at);
    const bool breaks = (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 ||
                        c == 0x2028 || c == 0x2029;
    if (!breaks) continue;
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(begin, (keep_ends ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

}  // namespace sluice::engine::jinja
