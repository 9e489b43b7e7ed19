#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// Strings as Python sees them, over UTF-8. Every string here is valid UTF-8; lengths and positions
// called "index" count code points, those called "offset" count bytes.
namespace sluice::engine::jinja {

bool IsValidUtf8(std::string_view text);
bool IsAscii(std::string_view text);
int64_t CodePointCount(std::string_view text);

// The code point at byte *offset, which moves past it. Precondition: *offset < text.size().
char32_t NextCodePoint(std::string_view text, size_t* offset);
void AppendUtf8(char32_t code_point, std::string* out);

// The byte offset of code point `index`; text.size() when index is past the end.
size_t OffsetOfIndex(std::string_view text, int64_t index);

// Python's str.isspace, isprintable, isalpha, ... of one character.
bool IsSpace(char32_t c);
bool IsPrintable(char32_t c);
bool IsAlpha(char32_t c);
bool IsNumeric(char32_t c);
bool IsDigit(char32_t c);
bool IsDecimal(char32_t c);
bool IsUpper(char32_t c);
bool IsLower(char32_t c);
bool IsTitle(char32_t c);
// A character that re's \w matches.
bool IsWord(char32_t c);

// Python's str.upper, lower, title, capitalize, swapcase and (simply, by lower) casefold.
std::string ToUpper(std::string_view text);
std::string ToLower(std::string_view text);
std::string ToTitle(std::string_view text);
std::string Capitalize(std::string_view text);
std::string SwapCase(std::string_view text);

// `text` without the characters that `chars` holds (white space when chars is null) at its ends.
enum class StripSides { kLeft, kRight, kBoth };
std::string_view Strip(std::string_view text, const std::string_view* chars, StripSides sides);

// With & < > ' " as character references, as markupsafe writes them.
std::string EscapeHtml(std::string_view text);

}  // namespace sluice::engine::jinja
