#include "engine/tokenizer/utf8.h"

#include <gtest/gtest.h>

namespace sluice::engine {
namespace {

using namespace std::string_literals;

Utf8Kind KindOf(const std::string& text) { return NextUtf8(text).kind; }

TEST(Utf8, TakesTheFirstAndLastCharacterOfEachLength) {
  for (const std::string& text :
       {"\0"s, "\x7F"s, "\xC2\x80"s, "\xDF\xBF"s, "\xE0\xA0\x80"s, "\xED\x9F\xBF"s, "\xEE\x80\x80"s,
        "\xEF\xBF\xBF"s, "\xF0\x90\x80\x80"s, "\xF4\x8F\xBF\xBF"s}) {
    const Utf8Unit unit = NextUtf8(text + "x");
    EXPECT_EQ(unit.kind, Utf8Kind::kCharacter) << text;
    EXPECT_EQ(unit.length, text.size()) << text;
    for (size_t part = 1; part < text.size(); ++part) {
      EXPECT_EQ(KindOf(text.substr(0, part)), Utf8Kind::kUnfinished) << text;
    }
  }
}

TEST(Utf8, RefusesOverlongFormsSurrogatesAndWhatIsAboveTheLastCharacter) {
  for (const std::string& text :
       {"\x80"s, "\xC0\x80"s, "\xC1\xBF"s, "\xE0\x9F\xBF"s, "\xED\xA0\x80"s, "\xED\xBF\xBF"s,
        "\xF0\x8F\xBF\xBF"s, "\xF4\x90\x80\x80"s, "\xF5\x80\x80\x80"s, "\xFF"s}) {
    EXPECT_EQ(KindOf(text), Utf8Kind::kInvalid) << text;
    EXPECT_EQ(NextUtf8(text).length, 1u) << text;
    EXPECT_EQ(ValidUtf8Prefix("ab" + text), 2u);
  }
}

TEST(Utf8, EightBytesAtATimeFindsTheSamePrefix) {
  for (size_t at = 0; at < 20; ++at) {
    std::string text(20, 'a');
    text[at] = '\xFF';
    EXPECT_EQ(ValidUtf8Prefix(text), at);
    text[at] = '\xC3';
    if (at + 1 < text.size()) text[at + 1] = '\xA9';
    EXPECT_EQ(ValidUtf8Prefix(text), at + 1 < text.size() ? text.size() : at);
  }
}

// The example of the Unicode Standard, section 3.9 (U+FFFD substitution of maximal subparts).
TEST(Utf8, ReplacesEachMaximalPart) {
  const std::string bytes =
      "a\xF1\x80\x80\xE1\x80\xC2"
      "b\x80"
      "c\x80\xBF"
      "d";
  const std::string r(kReplacementCharacter);
  EXPECT_EQ(ReplaceInvalidUtf8(bytes), "a" + r + r + r + "b" + r + "c" + r + r + "d");
}

TEST(Utf8, AnUnfinishedEndIsLeftOrReplacedOnce) {
  std::string out;
  EXPECT_EQ(AppendReplacingInvalid("ab\xF0\x9F\xA6", &out), 2u);
  EXPECT_EQ(out, "ab");
  EXPECT_EQ(ReplaceInvalidUtf8("ab\xF0\x9F\xA6"), "ab" + std::string(kReplacementCharacter));
  EXPECT_EQ(ReplaceInvalidUtf8(""), "");
}

}  // namespace
}  // namespace sluice::engine
