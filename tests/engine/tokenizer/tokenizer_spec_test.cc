// What Tokenizer::Create refuses, and how it says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/vocabulary.h"
#include "tests/engine/tokenizer/small_spec.h"

namespace sluice::testing {
namespace {

using engine::TokenizerSpec;
using engine::TokenType;
using ::testing::HasSubstr;

TokenizerSpec GoodSpec() {
  SmallSpec small;
  small.AddMerge("a", "b");
  small.AddNamed("<|end|>");
  return std::move(small.spec);
}

// Expects InvalidArgument with each of `parts` in the message.
void ExpectRefused(TokenizerSpec spec, const std::vector<std::string>& parts) {
  const auto made = engine::Tokenizer::Create(std::move(spec));
  ASSERT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument) << made.status();
  for (const std::string& part : parts)
    EXPECT_THAT(engine::Message(made.status()), HasSubstr(part));
}

TEST(TokenizerSpec, AGoodOneIsTaken) { EXPECT_TRUE(engine::Tokenizer::Create(GoodSpec()).ok()); }

TEST(TokenizerSpec, UnknownModelAndPreTokenizer) {
  TokenizerSpec spec = GoodSpec();
  spec.model = "llama";
  ExpectRefused(spec, {"tokenizer.ggml.model", "'llama'", "gpt2"});
  spec = GoodSpec();
  spec.pre = "bert\xFF";
  ExpectRefused(spec, {"tokenizer.ggml.pre", "'bert\uFFFD'", "smollm"});
}

TEST(TokenizerSpec, TokensAndTypes) {
  TokenizerSpec spec = GoodSpec();
  spec.tokens.clear();
  ExpectRefused(spec, {"tokenizer.ggml.tokens"});
  spec = GoodSpec();
  spec.types.pop_back();
  ExpectRefused(spec, {"tokenizer.ggml.token_type", "257", "258"});
  spec = GoodSpec();
  spec.types[3] = static_cast<TokenType>(7);
  ExpectRefused(spec, {"tokenizer.ggml.token_type[3]", "7"});
  spec.types[3] = static_cast<TokenType>(-1);
  ExpectRefused(spec, {"tokenizer.ggml.token_type[3]", "-1"});
  spec = GoodSpec();
  spec.tokens.push_back("ab");
  spec.types.push_back(TokenType::kUserDefined);
  ExpectRefused(spec, {"tokenizer.ggml.tokens[258]", "'ab'", "tokenizer.ggml.tokens[256]"});
  spec = GoodSpec();
  for (TokenType& type : spec.types) type = TokenType::kControl;
  ExpectRefused(spec, {"tokenizer.ggml.tokens", "single byte"});
}

TEST(TokenizerSpec, Limits) {
  TokenizerSpec spec = GoodSpec();
  spec.tokens.push_back(std::string(engine::kTokenBytesMax + 1, 'x'));
  spec.types.push_back(TokenType::kNormal);
  ExpectRefused(spec, {"tokenizer.ggml.tokens[258]", "65535"});
  spec = GoodSpec();
  spec.tokens.push_back(std::string(engine::kControlNameBytesMax + 1, 'x'));
  spec.types.push_back(TokenType::kControl);
  ExpectRefused(spec, {"tokenizer.ggml.tokens[258]", "1024"});
  spec = GoodSpec();
  spec.tokens.resize(engine::kVocabularyTokensMax + 1);
  ExpectRefused(spec, {"tokenizer.ggml.tokens", "1048576"});
  spec = GoodSpec();
  spec.merges.resize(engine::kVocabularyMergesMax + 1);
  ExpectRefused(spec, {"tokenizer.ggml.merges", "2097152"});
}

TEST(TokenizerSpec, Merges) {
  for (const std::string bad : {"", " ", "ab", "a ", " b", "a b c", "a  b"}) {
    TokenizerSpec spec = GoodSpec();
    spec.merges.push_back(bad);
    ExpectRefused(spec, {"tokenizer.ggml.merges[1]", "'" + bad + "'"});
  }
  TokenizerSpec spec = GoodSpec();
  spec.merges.push_back("ab c");
  ExpectRefused(spec, {"tokenizer.ggml.merges[1]", "'abc'", "not a token"});
  spec.merges.back() = "xy c";
  ExpectRefused(spec, {"tokenizer.ggml.merges[1]", "'xy'", "not a token"});
  spec.merges.back() = "c xy";
  ExpectRefused(spec, {"tokenizer.ggml.merges[1]", "'xy'", "not a token"});
}

TEST(TokenizerSpec, Ids) {
  TokenizerSpec spec = GoodSpec();
  spec.bos_id = 258;
  ExpectRefused(spec, {"tokenizer.ggml.bos_token_id", "258"});
  spec = GoodSpec();
  spec.eos_id = -2;
  ExpectRefused(spec, {"tokenizer.ggml.eos_token_id", "-2"});
  spec = GoodSpec();
  spec.end_ids = {257, 1000};
  ExpectRefused(spec, {"eot_token_id", "1000"});
  spec = GoodSpec();
  spec.add_bos = true;
  ExpectRefused(spec, {"tokenizer.ggml.add_bos_token", "bos_token_id"});
  spec.bos_id = 257;
  EXPECT_TRUE(engine::Tokenizer::Create(spec).ok());
}

}  // namespace
}  // namespace sluice::testing
