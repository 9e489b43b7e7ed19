// The tokenizer on small vocabularies made by hand.
#include "engine/tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/tokenizer/small_spec.h"

namespace sluice::testing {
namespace {

using engine::ControlTokens;
using engine::Tokenizer;
using engine::TokenType;
using Ids = std::vector<int32_t>;

Ids Encode(const Tokenizer& tokenizer, std::string_view text,
           ControlTokens control = ControlTokens::kParse) {
  return tokenizer.Encode(text, control).value();
}

TEST(Tokenizer, MergesWithinPiecesOnly) {
  SmallSpec small;
  const int32_t ab = small.AddMerge("a", "b");
  const int32_t bb = small.AddMerge("b", " ");
  const auto tokenizer = MakeTokenizer(small.spec);
  EXPECT_EQ(Encode(*tokenizer, "ab b b"), Ids({ab, ' ', 'b', ' ', 'b'}));
  EXPECT_EQ(tokenizer->Decode(Ids({ab, bb}), false), "abb ");
  EXPECT_EQ(Encode(*tokenizer, ""), Ids());
}

TEST(Tokenizer, BytesWithoutATokenGoBeforeMerging) {
  SmallSpec small;
  const int32_t marks = small.AddMerge("!", "!");
  small.spec.tokens['\x04'] = "not the byte";
  small.spec.tokens[0xFF] = "neither";
  const auto tokenizer = MakeTokenizer(small.spec);
  EXPECT_EQ(Encode(*tokenizer, "!\x04!"), Ids({marks}));
  EXPECT_EQ(Encode(*tokenizer, "\x04"), Ids());
  // An invalid byte ends the piece, whether it has a token or not.
  EXPECT_EQ(Encode(*tokenizer, "!\xFF!"), Ids({'!', '!'}));
  EXPECT_EQ(Encode(*tokenizer, "!\xFE!"), Ids({'!', 0xFE, '!'}));
}

TEST(Tokenizer, InvalidBytesAreTokenisedAsBytes) {
  const auto tokenizer = MakeTokenizer(SmallSpec("smollm").spec);
  for (const std::string& text :
       {std::string("\xE2\x80"), std::string("\xE6\xAD"), std::string("\xFF"),
        std::string("a\0b", 3), std::string("\xED\xA0\x80 x \xF5\xC0")}) {
    const Ids ids = Encode(*tokenizer, text);
    EXPECT_EQ(ids.size(), text.size());
    EXPECT_EQ(tokenizer->Decode(ids, false), text);
  }
}

TEST(Tokenizer, ControlTokensAreParsedOnlyOnRequest) {
  SmallSpec small;
  const int32_t start = small.AddNamed("<|start|>");
  const int32_t user = small.AddNamed("<u>", TokenType::kUserDefined);
  const int32_t wide = small.AddNamed("<\uFF5Cb\u2581s\uFF5C>");
  const auto tokenizer = MakeTokenizer(small.spec);
  EXPECT_EQ(Encode(*tokenizer, "<|start|>a<u> <\uFF5Cb\u2581s\uFF5C>"),
            Ids({start, 'a', user, ' ', wide}));
  const Ids plain = Encode(*tokenizer, "<|start|><u>", ControlTokens::kPlainText);
  EXPECT_EQ(plain.size(), 12u);
  EXPECT_EQ(tokenizer->Decode(plain, true), "<|start|><u>");
  EXPECT_TRUE(tokenizer->IsControl(start));
  EXPECT_FALSE(tokenizer->IsControl(user));
  EXPECT_EQ(tokenizer->Decode(Ids({start, 'a', user, wide}), true), "a<u>");
  EXPECT_EQ(tokenizer->Decode(Ids({start, 'a'}), false), "<|start|>a");
}

// Pieces do not reach over a control token: a blank before one is alone, as if the text ended
// there.
TEST(Tokenizer, TextOnEitherSideOfAControlTokenStandsAlone) {
  SmallSpec small;
  const int32_t two = small.AddMerge(" ", " ");
  const int32_t named = small.AddNamed("<c>");
  const auto tokenizer = MakeTokenizer(small.spec);
  EXPECT_EQ(Encode(*tokenizer, "a  <c>  b"), Ids({'a', two, named, ' ', ' ', 'b'}));
}

// A word behind an added token, special or not, has the ids that it has alone.
TEST(Tokenizer, AWordBehindAnAddedTokenIsThatWord) {
  SmallSpec small("smollm");
  small.AddMerge("u", "s");
  const int32_t user = small.AddMerge("us", "er");
  small.spec.merges.insert(small.spec.merges.begin() + 1, Symbols("e") + " " + Symbols("r"));
  small.AddWord("er");
  const int32_t blank_user = small.AddMerge(" ", "user");
  for (const TokenType type : {TokenType::kControl, TokenType::kUserDefined}) {
    SmallSpec with = small;
    const int32_t added = with.AddNamed("<a>", type);
    const auto tokenizer = MakeTokenizer(with.spec);
    EXPECT_EQ(Encode(*tokenizer, "user"), Ids({user}));
    EXPECT_EQ(Encode(*tokenizer, "<a>user"), Ids({added, user}));
    EXPECT_EQ(Encode(*tokenizer, "<a> user"), Ids({added, blank_user}));
    EXPECT_EQ(Encode(*tokenizer, "user<a>user"), Ids({user, added, user}));
  }
}

TEST(Tokenizer, MergesCannotSpellAControlToken) {
  SmallSpec small;
  small.spec.merges.push_back("< c");
  const int32_t open = small.AddWord("<c");
  small.spec.merges.push_back("<c >");
  const int32_t named = small.AddNamed("<c>");
  for (const char* pre : {"gpt-2", "llama-bpe"}) {
    small.spec.pre = pre;
    const auto tokenizer = MakeTokenizer(small.spec);
    for (int32_t id : Encode(*tokenizer, "<c>", ControlTokens::kPlainText)) EXPECT_NE(id, named);
    EXPECT_EQ(Encode(*tokenizer, "<c>"), Ids({named}));
    EXPECT_EQ(tokenizer->TokenBytes(open), "<c");
  }
}

TEST(Tokenizer, AWholePieceThatIsATokenGoesFirstWhereThePreTokenizerSaysSo) {
  SmallSpec small("gpt-2");
  const int32_t bc = small.AddMerge("b", "c");
  const int32_t abc = small.AddWord("abc");
  EXPECT_EQ(Encode(*MakeTokenizer(small.spec), "abc"), Ids({'a', bc}));
  small.spec.pre = "llama-bpe";
  EXPECT_EQ(Encode(*MakeTokenizer(small.spec), "abc"), Ids({abc}));
}

TEST(Tokenizer, TooManyTokensIsOutOfRange) {
  SmallSpec small;
  small.AddMerge("a", "a");
  small.AddNamed("<c>");
  const auto tokenizer = MakeTokenizer(small.spec);
  const auto count = [&](std::string_view text, size_t limit) {
    return tokenizer->Encode(text, ControlTokens::kParse, limit);
  };
  EXPECT_EQ(count("aaaa", 2).value().size(), 2u);
  EXPECT_EQ(count("aaaa", 1).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(count("a", 0).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_TRUE(count("", 0).ok());
  EXPECT_EQ(count("x y z", 2).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_TRUE(count("x y z", 5).ok());
  EXPECT_TRUE(count("<c><c>", 2).ok());
  EXPECT_EQ(count("<c><c>", 1).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(engine::Message(count("<c><c>", 1).status()), ::testing::HasSubstr("1 tokens"));
  // Told at once, without merging fifty million symbols.
  EXPECT_EQ(count(std::string(50'000'000, 'a'), 1000).status().code(),
            absl::StatusCode::kOutOfRange);
}

TEST(Tokenizer, LooksUp) {
  SmallSpec small;
  const int32_t ab = small.AddMerge("a", "b");
  const int32_t named = small.AddNamed("<c>");
  const int32_t raw = small.AddNamed("\u2581x", TokenType::kUserDefined);
  const auto tokenizer = MakeTokenizer(small.spec);
  EXPECT_EQ(tokenizer->vocab_size(), 259);
  EXPECT_EQ(tokenizer->TokenId("ab"), ab);
  EXPECT_EQ(tokenizer->TokenId(" "), ' ');
  EXPECT_EQ(tokenizer->TokenId("<c>"), named);
  EXPECT_EQ(tokenizer->TokenId("nowhere"), std::nullopt);
  EXPECT_EQ(tokenizer->TokenBytes(raw), "\u2581x");
  EXPECT_EQ(tokenizer->TokenBytes(-1), "");
  EXPECT_EQ(tokenizer->TokenBytes(259), "");
  EXPECT_FALSE(tokenizer->IsControl(-1));
  EXPECT_FALSE(tokenizer->IsControl(1 << 30));
  EXPECT_EQ(tokenizer->Decode(Ids({-5, ab, 1 << 30}), true), "ab");
  EXPECT_EQ(tokenizer->spec().merges.size(), 1u);
}

// Threads share one cache of words among all tokenizers: what one knows must not answer for
// another.
TEST(Tokenizer, TokenizersOnOneThreadDoNotMixUpTheirWords) {
  SmallSpec small;
  const int32_t first = small.AddMerge("a", "b");
  const auto merging = MakeTokenizer(small.spec);
  const auto plain = MakeTokenizer(SmallSpec().spec);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(Encode(*merging, "ab ab"), Ids({first, ' ', first}));
    EXPECT_EQ(Encode(*plain, "ab ab"), Ids({'a', 'b', ' ', 'a', 'b'}));
  }
}

}  // namespace
}  // namespace sluice::testing
