#include "server/http/json_text.h"

#include <cstdint>

namespace sluice::server {
namespace {

// Length of the well-formed UTF-8 sequence at text[i], or 0 (Unicode 15, table 3-7).
size_t SequenceLength(std::string_view text, size_t i) {
  const auto byte = [&](size_t k) {
    return k < text.size() ? static_cast<uint8_t>(text[k]) : uint8_t{0};
  };
  const auto tail = [&](size_t k) { return (byte(k) & 0xC0) == 0x80; };
  const uint8_t a = byte(i);
  const uint8_t b = byte(i + 1);
  if (a >= 0xC2 && a <= 0xDF) return tail(i + 1) ? 2 : 0;
  if (a >= 0xE0 && a <= 0xEF) {
    if (a == 0xE0 && b < 0xA0) return 0;
    if (a == 0xED && b > 0x9F) return 0;
    return tail(i + 1) && tail(i + 2) ? 3 : 0;
  }
  if (a >= 0xF0 && a <= 0xF4) {
    if (a == 0xF0 && b < 0x90) return 0;
    if (a == 0xF4 && b > 0x8F) return 0;
    return tail(i + 1) && tail(i + 2) && tail(i + 3) ? 4 : 0;
  }
  return 0;
}

void AppendControl(std::string& out, uint8_t c) {
  static constexpr char kHex[] = "0123456789abcdef";
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      out += "\\u00";
      out += kHex[c >> 4];
      out += kHex[c & 15];
  }
}

}  // namespace

void AppendJsonEscaped(std::string& out, std::string_view text) {
  size_t clean = 0;  // start of the run that can be copied as it is
  size_t i = 0;
  while (i < text.size()) {
    const uint8_t c = static_cast<uint8_t>(text[i]);
    if (c >= 0x20 && c < 0x80 && c != '"' && c != '\\') {
      ++i;
      continue;
    }
    if (c >= 0x80) {
      if (const size_t n = SequenceLength(text, i); n > 0) {
        i += n;
        continue;
      }
    }
    out.append(text, clean, i - clean);
    if (c >= 0x80) {
      out += "\xEF\xBF\xBD";
    } else {
      AppendControl(out, c);
    }
    clean = ++i;
  }
  out.append(text, clean, text.size() - clean);
}

void AppendJsonString(std::string& out, std::string_view text) {
  out += '"';
  AppendJsonEscaped(out, text);
  out += '"';
}

}  // namespace sluice::server
