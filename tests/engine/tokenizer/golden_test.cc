#include <gtest/gtest.h>

#include "engine/tokenizer/tokenizer.h"
#include "tests/engine/tokenizer/golden.h"
#include "tests/engine/tokenizer/model_spec.h"

namespace sluice::testing {
namespace {

using engine::ControlTokens;

TEST(TokenizerGolden, IdsAndRoundTripAreExact) {
  const engine::Tokenizer& tokenizer = ModelTokenizer();
  const std::vector<GoldenLine> golden = ReadGolden();
  ASSERT_EQ(golden.size(), 671u);
  for (const GoldenLine& line : golden) {
    const auto ids = tokenizer.Encode(
        line.text, line.special ? ControlTokens::kParse : ControlTokens::kPlainText);
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(*ids, line.ids) << line.category << ": " << line.text;
    EXPECT_EQ(tokenizer.Decode(line.ids, false) == line.text, line.roundtrip)
        << line.category << ": " << line.text;
  }
}

// Where the programs differ for the handling of bytes without a token, the published tokenizer is
// right. The other lines hold characters newer than PCRE2's Unicode tables: only the bytes are
// certain.
TEST(TokenizerGolden, DisputedLines) {
  const engine::Tokenizer& tokenizer = ModelTokenizer();
  int exact = 0;
  for (const DisputedLine& line : ReadDisputed()) {
    const auto ids = tokenizer.Encode(line.text, ControlTokens::kPlainText);
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(tokenizer.Decode(*ids, false), tokenizer.Decode(line.right, false)) << line.text;
    if (line.why.find("Unicode 16") != std::string::npos) continue;
    EXPECT_EQ(*ids, line.right) << line.text;
    ++exact;
  }
  EXPECT_EQ(exact, 6);
}

}  // namespace
}  // namespace sluice::testing
