#include "engine/base/log_text.h"

#include <cstdint>
#include <cstdio>

namespace sluice::engine {
namespace {

struct Character {
  size_t bytes = 1;
  uint32_t code = 0;
  bool valid = false;
};

// The character at text[i] (Unicode 15, table 3-7). A byte of no well-formed sequence is one
// invalid character.
Character At(std::string_view text, size_t i) {
  const auto byte = [&](size_t k) {
    return i + k < text.size() ? static_cast<uint8_t>(text[i + k]) : uint8_t{0};
  };
  const uint8_t first = byte(0);
  if (first < 0x80) return {1, first, true};
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return {};
  uint32_t code = first & (0xFFU >> (length + 1));
  for (size_t k = 1; k < length; ++k) {
    if ((byte(k) & 0xC0) != 0x80) return {};
    code = code << 6 | (byte(k) & 0x3FU);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kLeast[length] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return {};
  return {length, code, true};
}

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// What could end a line, move the cursor, or show a line in another order than it was written.
bool MovesCursor(uint32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x2028 || code == 0x2029 ||
         code == 0x200E || code == 0x200F || (code >= 0x202A && code <= 0x202E) ||
         (code >= 0x2066 && code <= 0x2069);
}

void AppendEscape(std::string* out, uint32_t code, bool json) {
  const char* named = code == '\n' ? "\\n" : code == '\r' ? "\\r" : code == '\t' ? "\\t" : nullptr;
  if (named != nullptr) {
    *out += named;
    return;
  }
  char text[8];
  std::snprintf(text, sizeof text, json || code > 0xFF ? "\\u%04x" : "\\x%02x",
                static_cast<unsigned>(code));
  *out += text;
}

void Append(std::string* out, std::string_view text, bool quotes, bool json) {
  for (size_t i = 0; i < text.size();) {
    const Character c = At(text, i);
    if (!c.valid) {
      *out += kReplacement;
    } else if (MovesCursor(c.code)) {
      AppendEscape(out, c.code, json);
    } else {
      if (c.code == '\\' || (quotes && c.code == '"')) out->push_back('\\');
      out->append(text, i, c.bytes);
    }
    i += c.bytes;
  }
}

}  // namespace

std::string ValidUtf8(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const Character c = At(text, i);
    if (c.valid) {
      out.append(text, i, c.bytes);
    } else {
      out += kReplacement;
    }
    i += c.bytes;
  }
  return out;
}

void AppendLogText(std::string* out, std::string_view text, bool quotes) {
  Append(out, text, quotes, false);
}

void AppendLogJson(std::string* out, std::string_view text) { Append(out, text, true, true); }

std::string ClipLogText(std::string_view text, size_t bytes_max) {
  if (text.size() <= bytes_max) return std::string(text);
  // Back to the beginning of a character, which is at most three bytes away.
  size_t end = bytes_max;
  for (int k = 0; k < 3 && end > 0 && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80; ++k) --end;
  return std::string(text.substr(0, end)) + "...";
}

}  // namespace sluice::engine
