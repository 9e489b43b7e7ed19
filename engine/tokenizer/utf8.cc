#include "engine/tokenizer/utf8.h"

#include <cstdint>
#include <cstring>

namespace sluice::engine {

Utf8Unit NextUtf8(std::string_view text) {
  const auto lead = static_cast<uint8_t>(text[0]);
  if (lead < 0x80) return {Utf8Kind::kCharacter, 1};
  if (lead < 0xC2 || lead > 0xF4) return {Utf8Kind::kInvalid, 1};
  size_t length = 2;
  // The second byte's range depends on the lead: that is what excludes overlong forms and
  // surrogates.
  uint8_t low = 0x80;
  uint8_t high = 0xBF;
  if (lead >= 0xF0) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else if (lead >= 0xE0) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  }
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {Utf8Kind::kUnfinished, i};
    const auto byte = static_cast<uint8_t>(text[i]);
    if (byte < low || byte > high) return {Utf8Kind::kInvalid, i};
    low = 0x80;
    high = 0xBF;
  }
  return {Utf8Kind::kCharacter, length};
}

size_t ValidUtf8Prefix(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    if (text.size() - at >= 8) {
      uint64_t word;
      std::memcpy(&word, text.data() + at, sizeof(word));
      if ((word & 0x8080808080808080u) == 0) {
        at += 8;
        continue;
      }
    }
    const Utf8Unit unit = NextUtf8(text.substr(at));
    if (unit.kind != Utf8Kind::kCharacter) break;
    at += unit.length;
  }
  return at;
}

size_t AppendReplacingInvalid(std::string_view text, std::string* out) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t valid = ValidUtf8Prefix(text.substr(at));
    out->append(text.substr(at, valid));
    at += valid;
    if (at == text.size()) break;
    const Utf8Unit unit = NextUtf8(text.substr(at));
    if (unit.kind == Utf8Kind::kUnfinished) break;
    out->append(kReplacementCharacter);
    at += unit.length;
  }
  return at;
}

std::string ReplaceInvalidUtf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  if (AppendReplacingInvalid(text, &out) < text.size()) out.append(kReplacementCharacter);
  return out;
}

}  // namespace sluice::engine
