#include "engine/tokenizer/byte_alphabet.h"

#include <array>

namespace sluice::engine {
namespace {

constexpr int kCodePoints = 256 + 68;  // the highest code point of the alphabet, plus one

constexpr bool StandsForItself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<uint16_t, 256> code_point{};
  std::array<int16_t, kCodePoints> byte{};  // -1: not of the alphabet
};

constexpr Alphabet MakeAlphabet() {
  Alphabet a;
  for (int16_t& b : a.byte) b = -1;
  int next = 256;
  for (int b = 0; b < 256; ++b) {
    const int code_point = StandsForItself(b) ? b : next++;
    a.code_point[b] = static_cast<uint16_t>(code_point);
    a.byte[code_point] = static_cast<int16_t>(b);
  }
  return a;
}

constexpr Alphabet kAlphabet = MakeAlphabet();

}  // namespace

std::string ByteToSymbol(uint8_t byte) {
  const int code_point = kAlphabet.code_point[byte];
  if (code_point < 0x80) return std::string(1, static_cast<char>(code_point));
  return {static_cast<char>(0xC0 | (code_point >> 6)),
          static_cast<char>(0x80 | (code_point & 0x3F))};
}

std::optional<std::string> SymbolsToBytes(std::string_view symbols) {
  std::string bytes;
  bytes.reserve(symbols.size());
  for (size_t i = 0; i < symbols.size(); ++i) {
    int code_point = static_cast<uint8_t>(symbols[i]);
    if (code_point >= 0x80) {
      // Every character of the alphabet above ASCII has two bytes, with a lead of C2 to C5.
      if (code_point < 0xC2 || code_point > 0xC5 || i + 1 == symbols.size()) return std::nullopt;
      const int second = static_cast<uint8_t>(symbols[++i]);
      if ((second & 0xC0) != 0x80) return std::nullopt;
      code_point = ((code_point & 0x1F) << 6) | (second & 0x3F);
    }
    if (code_point >= kCodePoints || kAlphabet.byte[code_point] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kAlphabet.byte[code_point]));
  }
  return bytes;
}

}  // namespace sluice::engine
