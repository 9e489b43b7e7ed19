// The real vocabulary on random and hostile text.
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "engine/tokenizer/tokenizer.h"
#include "tests/engine/tokenizer/golden.h"
#include "tests/engine/tokenizer/model_spec.h"
#include "tests/engine/tokenizer/small_spec.h"

namespace sluice::testing {
namespace {

using engine::ControlTokens;

// `text` without the bytes that the vocabulary has no token for.
std::string WithoutDropped(std::string_view text) {
  static const std::vector<bool> has_token = [] {
    std::vector<bool> has(256);
    for (int byte = 0; byte < 256; ++byte) {
      has[static_cast<size_t>(byte)] =
          ModelTokenizer().TokenId(std::string(1, static_cast<char>(byte))).has_value();
    }
    return has;
  }();
  std::string kept;
  for (char byte : text) {
    if (has_token[static_cast<uint8_t>(byte)]) kept += byte;
  }
  return kept;
}

std::string Utf8Of(uint32_t code) {
  const auto byte = [](uint32_t value) { return static_cast<char>(value); };
  const auto tail = [&](uint32_t shift) { return byte(0x80 | (code >> shift & 0x3F)); };
  if (code < 0x80) return {byte(code)};
  if (code < 0x800) return {byte(0xC0 | code >> 6), tail(0)};
  if (code < 0x10000) return {byte(0xE0 | code >> 12), tail(6), tail(0)};
  return {byte(0xF0 | code >> 18), tail(12), tail(6), tail(0)};
}

void ExpectRoundTrip(const std::string& text, const std::string& where) {
  const engine::Tokenizer& tokenizer = ModelTokenizer();
  for (ControlTokens control : {ControlTokens::kPlainText, ControlTokens::kParse}) {
    const auto ids = tokenizer.Encode(text, control);
    ASSERT_TRUE(ids.ok()) << ids.status() << " " << where;
    ASSERT_EQ(tokenizer.Decode(*ids, false), WithoutDropped(text)) << where;
    if (control == ControlTokens::kParse) continue;
    for (int32_t id : *ids) ASSERT_FALSE(tokenizer.IsControl(id)) << where;
  }
}

TEST(TokenizerProperty, TwentyOneBytesHaveNoToken) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  EXPECT_EQ(WithoutDropped(all).size(), 256u - 21u);
}

TEST(TokenizerProperty, RandomBytesComeBack) {
  const uint64_t seed = 4242;
  std::mt19937_64 random(seed);
  for (int round = 0; round < 20000; ++round) {
    std::string text(random() % 64, '\0');
    // Half the bytes are ASCII, so that runs of both kinds meet.
    for (char& byte : text) byte = static_cast<char>(random() & (random() % 2 ? 0x7F : 0xFF));
    ExpectRoundTrip(text, "seed " + std::to_string(seed) + " round " + std::to_string(round));
  }
}

TEST(TokenizerProperty, MixedGoldenTextComesBack) {
  const uint64_t seed = 17;
  std::mt19937_64 random(seed);
  const std::vector<GoldenLine> golden = ReadGolden();
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (int part = 0; part < 6; ++part) {
      const std::string& line = golden[random() % golden.size()].text;
      const size_t begin = line.empty() ? 0 : random() % line.size();  // may cut a character in two
      text += line.substr(begin, random() % 200);
    }
    ExpectRoundTrip(text, "seed " + std::to_string(seed) + " round " + std::to_string(round));
  }
}

// Text is not normalised: no character is lost, and none becomes another.
TEST(TokenizerProperty, EveryCharacterComesBackAloneAndAfterALetter) {
  for (uint32_t code = 0; code < 0x20000; ++code) {
    if (code >= 0xD800 && code < 0xE000) continue;  // surrogates are no characters
    const std::string character = Utf8Of(code);
    for (const std::string& text : {character, "a" + character}) {
      const auto ids = ModelTokenizer().Encode(text, ControlTokens::kPlainText);
      ASSERT_TRUE(ids.ok()) << code;
      ASSERT_EQ(ModelTokenizer().Decode(*ids, false), WithoutDropped(text)) << code;
    }
  }
  for (const std::string text : {"Kant\u014D", "Kanto\u0304", "l\u01DCshi", "na\u00EFve", "\uAC01",
                                 "\u1100\u1161\u11A8", "\u212B", "\uFB01"}) {
    ExpectRoundTrip(text, text);
  }
}

// Quadratic work on a megabyte would outlast the test's time limit by far.
TEST(TokenizerProperty, LongRunsOfAnythingTakeNearLinearTime) {
  for (const std::string unit : {"a", " ", "\n", "=", "7", "\U0001F600", "\xFF\xFE", "<|im_star",
                                 "<", "<|im_start|>", "\u4F60", "abc", " \t"}) {
    std::string text;
    while (text.size() < (1u << 20)) text += unit;
    ExpectRoundTrip(text, unit);
  }
}

TEST(TokenizerProperty, AMegabyteOfRandomLettersIsOnePieceAndComesBack) {
  std::mt19937_64 random(3);
  std::string text(1 << 20, '\0');
  for (char& c : text) c = static_cast<char>('a' + random() % 26);
  ExpectRoundTrip(text, "seed 3");
}

TEST(TokenizerProperty, TheLimitOnTokensIsExact) {
  const engine::Tokenizer& tokenizer = ModelTokenizer();
  for (const GoldenLine& line : ReadGolden()) {
    const auto control = line.special ? ControlTokens::kParse : ControlTokens::kPlainText;
    EXPECT_TRUE(tokenizer.Encode(line.text, control, line.ids.size()).ok()) << line.text;
    if (line.ids.empty()) continue;
    EXPECT_EQ(tokenizer.Encode(line.text, control, line.ids.size() - 1).status().code(),
              absl::StatusCode::kOutOfRange)
        << line.text;
  }
}

TEST(TokenizerProperty, ThreadsGiveTheSameIds) {
  const engine::Tokenizer& tokenizer = ModelTokenizer();
  const std::vector<GoldenLine> golden = ReadGolden();
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < 2 * golden.size(); ++i) {
        const GoldenLine& line = golden[(i * (t + 1)) % golden.size()];
        const auto ids = tokenizer.Encode(
            line.text, line.special ? ControlTokens::kParse : ControlTokens::kPlainText);
        wrong[t] += !ids.ok() || *ids != line.ids;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

}  // namespace
}  // namespace sluice::testing
