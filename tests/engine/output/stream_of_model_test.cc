// Streams of the real vocabulary: token by token comes what all of them together say.
#include <gtest/gtest.h>

#include <random>

#include "engine/output/stream_decoder.h"
#include "engine/tokenizer/utf8.h"
#include "tests/engine/tokenizer/golden.h"
#include "tests/engine/tokenizer/model_spec.h"
#include "tests/support/test_scale.h"

namespace sluice::testing {
namespace {

std::string Streamed(const std::vector<int32_t>& ids) {
  engine::StreamDecoder decoder(&ModelTokenizer(), {});
  std::string joined;
  for (const int32_t id : ids) joined += decoder.Push(id).text;
  return joined + decoder.Finish().text;
}

TEST(StreamOfModel, RandomTokens) {
  const uint64_t seed = 1141;
  std::mt19937_64 random(seed);
  const auto vocabulary = static_cast<uint64_t>(ModelTokenizer().vocab_size());
  for (int round = 0; round < Scaled(10'000); ++round) {
    std::vector<int32_t> ids(1 + random() % 30);
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % vocabulary);
    ASSERT_EQ(Streamed(ids), engine::ReplaceInvalidUtf8(ModelTokenizer().Decode(ids, true)))
        << "seed " << seed << " round " << round;
  }
}

// Blanks included: between words, two at the beginning, at the end.
TEST(StreamOfModel, Texts) {
  std::vector<std::string> texts = {"Dear [Name], I hope",
                                    "  two blanks",
                                    " one",
                                    "at the end  ",
                                    "\n\n  x",
                                    "\t\ty",
                                    "a\u00A0b"};
  for (const GoldenLine& line : ReadGolden()) {
    if (line.roundtrip && !line.special) texts.push_back(line.text);
  }
  for (const std::string& text : texts) {
    const auto ids = ModelTokenizer().Encode(text, engine::ControlTokens::kPlainText);
    ASSERT_TRUE(ids.ok());
    EXPECT_EQ(Streamed(*ids), text);
  }
}

}  // namespace
}  // namespace sluice::testing
