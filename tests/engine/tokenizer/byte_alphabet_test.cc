#include "engine/tokenizer/byte_alphabet.h"

#include <gtest/gtest.h>

#include <set>

namespace sluice::engine {
namespace {

TEST(ByteAlphabet, EveryByteHasACharacterOfItsOwnAndComesBack) {
  std::set<std::string> symbols;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string symbol = ByteToSymbol(static_cast<uint8_t>(byte));
    symbols.insert(symbol);
    EXPECT_EQ(SymbolsToBytes(symbol), std::string(1, static_cast<char>(byte)));
  }
  EXPECT_EQ(symbols.size(), 256u);
}

TEST(ByteAlphabet, KnownCharacters) {
  EXPECT_EQ(ByteToSymbol('A'), "A");
  EXPECT_EQ(ByteToSymbol(' '), "\u0120");
  EXPECT_EQ(ByteToSymbol('\n'), "\u010A");
  EXPECT_EQ(ByteToSymbol('\t'), "\u0109");
  EXPECT_EQ(ByteToSymbol(0), "\u0100");
  EXPECT_EQ(ByteToSymbol(0x7F), "\u0121");
  EXPECT_EQ(ByteToSymbol(0xAD), "\u0143");
  EXPECT_EQ(ByteToSymbol(0xE9), "\u00E9");
}

TEST(ByteAlphabet, OtherTextIsNotOfIt) {
  for (const char* text :
       {" ", "a b", "\n", "\u0144", "\u00AD", "\uFF5C", "\xC4", "\xC4\x41", "\xFF"}) {
    EXPECT_EQ(SymbolsToBytes(text), std::nullopt) << text;
  }
  EXPECT_EQ(SymbolsToBytes(""), "");
}

}  // namespace
}  // namespace sluice::engine
