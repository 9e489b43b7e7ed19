#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// UTF-8 as the Unicode Standard defines it (table 3-7: no overlong forms, no surrogates, nothing
// above U+10FFFF).
namespace sluice::engine {

enum class Utf8Kind {
  kCharacter,   // a whole character
  kInvalid,     // bytes that no continuation can make a character
  kUnfinished,  // the text ends inside what may still become a character
};

struct Utf8Unit {
  Utf8Kind kind;
  size_t length;  // bytes, at least 1; kInvalid: the "maximal subpart" that one U+FFFD stands for
};

// The first unit of a text that is not empty.
Utf8Unit NextUtf8(std::string_view text);

// Bytes in the longest prefix of `text` that consists of whole characters.
size_t ValidUtf8Prefix(std::string_view text);

inline bool IsValidUtf8(std::string_view text) { return ValidUtf8Prefix(text) == text.size(); }

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

// Appends `text` to `out` with one U+FFFD for each invalid unit. Stops before an unfinished
// character at the end and returns how many bytes it used.
size_t AppendReplacingInvalid(std::string_view text, std::string* out);

// The whole of `text`, an unfinished character at the end replaced as well.
std::string ReplaceInvalidUtf8(std::string_view text);

}  // namespace sluice::engine
