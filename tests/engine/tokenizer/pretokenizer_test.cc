#include "engine/tokenizer/pretokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace sluice::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Pieces = std::vector<std::string>;

const std::vector<std::string> kNames = {"command-r", "default",  "gpt-2",     "gpt-4o",
                                         "llama-bpe", "llama-v3", "llama3",    "qwen2",
                                         "refact",    "smollm",   "starcoder", "tekken"};

// One name for each set of expressions.
const std::vector<std::string> kDifferent = {"default", "gpt-2",  "gpt-4o", "llama-bpe",
                                             "qwen2",   "smollm", "tekken"};

using Jit = Pretokenizer::Jit;

std::unique_ptr<const Pretokenizer> Make(const std::string& name, Jit jit = Jit::kWherePossible) {
  return Pretokenizer::Create(name, jit).value();
}

Pieces PiecesOf(const std::string& name, std::string_view text, Jit jit = Jit::kWherePossible) {
  Pieces pieces;
  const absl::Status status = Make(name, jit)->Split(text, [&](std::string_view piece) {
    pieces.emplace_back(piece);
    return true;
  });
  EXPECT_TRUE(status.ok()) << status;
  return pieces;
}

TEST(Pretokenizer, AnUnknownNameIsRefusedWithTheKnownOnes) {
  const auto made = Pretokenizer::Create("smolm");
  ASSERT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(made.status()), HasSubstr("tokenizer.ggml.pre"));
  EXPECT_THAT(Message(made.status()), HasSubstr("'smolm'"));
  for (const std::string& name : kNames) EXPECT_THAT(Message(made.status()), HasSubstr(name));
  EXPECT_FALSE(Pretokenizer::Create("").ok());
}

TEST(Pretokenizer, Gpt2) {
  EXPECT_THAT(PiecesOf("gpt-2", "I'm 42  years\n\n old!? We'LL"),
              ElementsAre("I", "'m", " 42", " ", " years", "\n\n", " old", "!?", " We", "'", "LL"));
}

TEST(Pretokenizer, SmollmTakesEachNumericCharacterAlone) {
  EXPECT_THAT(PiecesOf("smollm", "a  12 b"), ElementsAre("a", "  ", "1", "2", " b"));
  // A Roman numeral and a superscript are numeric too; a blank before a number stays by itself.
  EXPECT_THAT(PiecesOf("smollm", "x \u2167\u00B2y"),
              ElementsAre("x", " ", "\u2167", "\u00B2", "y"));
  EXPECT_THAT(PiecesOf("smollm", "a \n 1"), ElementsAre("a", " \n ", "1"));
  EXPECT_THAT(PiecesOf("smollm", "it's5's"), ElementsAre("it", "'s", "5", "'s"));
}

TEST(Pretokenizer, Llama3) {
  EXPECT_THAT(PiecesOf("llama-bpe", "I'LL 1234567"),
              ElementsAre("I", "'LL", " ", "123", "456", "7"));
  EXPECT_THAT(PiecesOf("llama-bpe", "3.1415926535"),
              ElementsAre("3", ".", "141", "592", "653", "5"));
  EXPECT_THAT(PiecesOf("llama-bpe", "a \n\n  x(y)\n"),
              ElementsAre("a", " \n\n", " ", " x", "(y", ")\n"));
}

// Three by three from the left, whatever the number's length and what is around it; or one by one.
TEST(Pretokenizer, DigitsAreGroupedFromTheLeft) {
  std::mt19937_64 random(40);
  for (size_t length = 1; length <= 40; ++length) {
    std::string digits;
    while (digits.size() < length) digits += static_cast<char>('0' + random() % 10);
    for (const auto& [name, group] :
         {std::pair("llama-bpe", size_t{3}), {"gpt-4o", 3}, {"qwen2", 1}, {"smollm", 1}}) {
      Pieces want{"a"};
      for (size_t at = 0; at < length; at += group) want.push_back(digits.substr(at, group));
      want.push_back("b");
      EXPECT_EQ(PiecesOf(name, "a" + digits + "b"), want) << name;
    }
  }
}

TEST(Pretokenizer, Qwen2TakesDigitsAlone) {
  EXPECT_THAT(PiecesOf("qwen2", "we'd 10"), ElementsAre("we", "'d", " ", "1", "0"));
  EXPECT_THAT(PiecesOf("qwen2", " \n\n  x"), ElementsAre(" \n\n", " ", " x"));
}

TEST(Pretokenizer, Gpt4oCutsBeforeAnUpperCaseLetter) {
  EXPECT_THAT(PiecesOf("gpt-4o", "fooBar it's HTTPServer//\n"),
              ElementsAre("foo", "Bar", " it's", " HTTPServer", "//\n"));
}

TEST(Pretokenizer, DefaultCutsInSeveralSteps) {
  EXPECT_THAT(PiecesOf("default", "a (b) 12345 it's"),
              ElementsAre("a", " ", "(", "b", ")", " ", "123", "45", " it", "'", "s"));
}

TEST(Pretokenizer, BlanksAreThoseOfUnicode) {
  // U+180E is not white space, U+0085 and U+3000 are.
  EXPECT_THAT(PiecesOf("gpt-2", "!\u180E!"), ElementsAre("!\u180E!"));
  EXPECT_THAT(PiecesOf("gpt-2", "a\u0085\u3000b"), ElementsAre("a", "\u0085", "\u3000", "b"));
}

TEST(Pretokenizer, InvalidBytesArePiecesOfTheirOwn) {
  EXPECT_THAT(PiecesOf("smollm", "ab\xFF\xFE cd\xE2\x80"),
              ElementsAre("ab", "\xFF\xFE", " cd", "\xE2\x80"));
  EXPECT_THAT(PiecesOf("gpt-2", "\xED\xA0\x80x"), ElementsAre("\xED\xA0\x80", "x"));
  EXPECT_THAT(PiecesOf("gpt-2", std::string_view("a\0b", 3)),
              ElementsAre("a", std::string(1, '\0'), "b"));
}

TEST(Pretokenizer, TheSinkEndsIt) {
  int pieces = 0;
  EXPECT_TRUE(Make("gpt-2")->Split("a b c", [&](std::string_view) { return ++pieces < 2; }).ok());
  EXPECT_EQ(pieces, 2);
}

std::string RandomText(std::mt19937_64* random) {
  const std::vector<std::string> parts = {
      " ",        "  ",           "\n",     "\r\n",       "\t",     "a",      "B",
      "ing",      "'s",           "'LL",    "7",          "42",     "!",      "//",
      "\u00E9",   "\u0301",       "\u4F60", "\U0001F600", "\u3000", "\u2167", "\xFF",
      "\xE2\x80", "\xED\xA0\x80", "\u01C5"};
  std::string text;
  for (uint64_t n = (*random)() % 30; n > 0; --n) text += parts[(*random)() % parts.size()];
  return text;
}

TEST(Pretokenizer, ThePiecesAreTheText) {
  const uint64_t seed = 99;
  std::mt19937_64 random(seed);
  for (int round = 0; round < 300; ++round) {
    const std::string text = RandomText(&random);
    for (const std::string& name : kNames) {
      std::string joined;
      for (const std::string& piece : PiecesOf(name, text)) {
        EXPECT_FALSE(piece.empty());
        joined += piece;
      }
      ASSERT_EQ(joined, text) << name << " seed " << seed << " round " << round;
    }
  }
}

TEST(Pretokenizer, TheInterpreterGivesTheSamePieces) {
  const uint64_t seed = 5;
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    const std::string text = RandomText(&random);
    for (const std::string& name : kDifferent) {
      ASSERT_EQ(PiecesOf(name, text, Jit::kNever), PiecesOf(name, text))
          << name << " seed " << seed << " round " << round;
    }
  }
}

// Quadratic work on any of these would outlast the test's time limit, and a match that needs more
// than PCRE2's limits would be an error.
void ExpectLongRunsSplit(size_t bytes, Jit jit) {
  for (const std::string unit :
       {"a", " ", "\n", "\r\n", "7", "!", "'", "A", "aA", " \n", "a ", "\u4F60", "\u0301",
        "\U0001F600", "\xFF", "\xE2\x80", "  !", "\u3000"}) {
    std::string text;
    while (text.size() < bytes) text += unit;
    for (const std::string& name : kDifferent) {
      size_t split = 0;
      const absl::Status status = Make(name, jit)->Split(text, [&](std::string_view piece) {
        split += piece.size();
        return true;
      });
      ASSERT_TRUE(status.ok()) << status << " " << name << " " << unit;
      EXPECT_EQ(split, text.size());
    }
  }
}

TEST(Pretokenizer, LongRunsOfAnythingTakeLinearTime) {
  ExpectLongRunsSplit(1 << 19, Jit::kWherePossible);
}

TEST(Pretokenizer, LongRunsOfAnythingTakeLinearTimeInterpreted) {
  ExpectLongRunsSplit(1 << 16, Jit::kNever);
}

TEST(Pretokenizer, ARunOfManyMegabytesIsWithinTheLimits) {
  const std::string text(size_t{16} << 20, 'A');
  EXPECT_EQ(PiecesOf("gpt-4o", text).size(), 1u);
  EXPECT_EQ(PiecesOf("smollm", text).size(), 1u);
  const std::string blanks(size_t{16} << 20, ' ');
  EXPECT_EQ(PiecesOf("llama-bpe", blanks).size(), 1u);
}

}  // namespace
}  // namespace sluice::engine
