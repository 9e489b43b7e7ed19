#include "engine/output/stream_decoder.h"

#include <gtest/gtest.h>

#include <random>

#include "engine/tokenizer/utf8.h"
#include "tests/engine/output/by_definition.h"
#include "tests/engine/tokenizer/small_spec.h"

namespace sluice::testing {
namespace {

using engine::StreamDecoder;
using engine::Tokenizer;
using Options = StreamDecoder::Options;

struct Streamed {
  std::vector<std::string> pieces;  // one for each token, and one for the end
  std::optional<std::string> stop;
  std::string joined;
};

Streamed Stream(const Tokenizer& tokenizer, const Options& options,
                const std::vector<int32_t>& ids) {
  StreamDecoder decoder(&tokenizer, options);
  Streamed result;
  const auto take = [&](StreamDecoder::Piece piece) {
    EXPECT_TRUE(engine::IsValidUtf8(piece.text)) << piece.text;
    result.joined += piece.text;
    result.pieces.push_back(std::move(piece.text));
    if (piece.stop_matched) {
      EXPECT_FALSE(result.stop) << "two stop strings";
      result.stop = piece.stop_matched;
    }
  };
  for (int32_t id : ids) take(decoder.Push(id));
  take(decoder.Finish());
  return result;
}

// Streams the words, one token each.
Streamed StreamWords(const std::vector<std::string>& words, const Options& options) {
  SmallSpec small;
  std::vector<int32_t> ids;
  for (const std::string& word : words) ids.push_back(small.AddWord(word));
  return Stream(*MakeTokenizer(small.spec), options, ids);
}

using Pieces = std::vector<std::string>;

TEST(StreamDecoder, AStopOverSeveralTokensDoesNotLeak) {
  const Streamed out = StreamWords({"ab", "cd", "ef", "gh"}, {.stop_strings = {"cdefg"}});
  EXPECT_EQ(out.pieces, Pieces({"ab", "", "", "", ""}));
  EXPECT_EQ(out.stop, "cdefg");
}

TEST(StreamDecoder, AStopNeedNotEndWithAToken) {
  const Streamed inside = StreamWords({"Paris", "!"}, {.stop_strings = {"Pari"}});
  EXPECT_EQ(inside.joined, "");
  EXPECT_EQ(inside.stop, "Pari");
  EXPECT_EQ(StreamWords({"one stop two"}, {.stop_strings = {" stop"}}).joined, "one");
}

TEST(StreamDecoder, HoldsOnlyWhatBeginsAStop) {
  const std::string stop = "#" + std::string(59, '=');
  const Streamed out =
      StreamWords({"the ", "quick ", "#", "brown ", "#==", "fox"}, {.stop_strings = {stop}});
  EXPECT_EQ(out.pieces, Pieces({"the ", "quick ", "", "#brown ", "", "#==fox", ""}));
}

TEST(StreamDecoder, TheEarliestStopIsNamedAndNothingFollowsIt) {
  for (const Pieces& stops : {Pieces{"stop", "top"}, Pieces{"top", "stop"}}) {
    const Streamed cut = StreamWords({"stop!", "more"}, {.stop_strings = stops});
    EXPECT_EQ(cut.joined, "");
    EXPECT_EQ(cut.stop, "stop");
    const Streamed kept =
        StreamWords({"stop!", "more"}, {.stop_strings = stops, .include_stop = true});
    EXPECT_EQ(kept.joined, "stop");
    EXPECT_EQ(kept.stop, "stop");
  }
}

TEST(StreamDecoder, AnUnfinishedStopComesOutAtTheEnd) {
  const Streamed out = StreamWords({"a<", "/s"}, {.stop_strings = {"</s>"}});
  EXPECT_EQ(out.pieces, Pieces({"a", "", "</s"}));
  EXPECT_EQ(out.stop, std::nullopt);
}

TEST(StreamDecoder, ACharacterOverTwoTokensComesWhole) {
  const Streamed out = StreamWords({"\xF0\x9F", "\xA6\x99", "x\xD0", "\xBE"}, {});
  EXPECT_EQ(out.pieces, Pieces({"", "\U0001F999", "x", "\u043E", ""}));
}

TEST(StreamDecoder, ACharacterThatIsCutOffIsOneReplacement) {
  EXPECT_EQ(StreamWords({"a", "\xE4\xBD"}, {}).pieces, Pieces({"a", "", "\uFFFD"}));
  EXPECT_EQ(StreamWords({"a", "\xF0\x9F\xA6"}, {}).pieces, Pieces({"a", "", "\uFFFD"}));
}

TEST(StreamDecoder, InvalidBytesAreReplacedAsSoonAsTheyAreCertain) {
  EXPECT_EQ(StreamWords({"\xFF", "\xE4", "a", "\xC3\xA9", "\x80"}, {}).pieces,
            Pieces({"\uFFFD", "",
                    "\uFFFD"
                    "a",
                    "\u00E9", "\uFFFD", ""}));
}

TEST(StreamDecoder, AStopMayBeginOrEndInsideATokenWithPartOfACharacter) {
  const Streamed out =
      StreamWords({"x\xE4", "\xBD\xA0y\xE5", "\xA5\xBD!"}, {.stop_strings = {"y\u597D"}});
  EXPECT_EQ(out.joined, "x\u4F60");
  EXPECT_EQ(out.stop, "y\u597D");
}

// After "a" and the first byte of a character, a stop can go on only with that character or U+FFFD.
TEST(StreamDecoder, PartOfACharacterFreesTextThatItCannotContinue) {
  EXPECT_EQ(StreamWords({"a", "\xC3", "\xA9"}, {.stop_strings = {"ab"}}).pieces,
            Pieces({"", "a", "\u00E9", ""}));
  EXPECT_EQ(StreamWords({"a", "\xC3", "\xA9"}, {.stop_strings = {"a\u00E8"}}).pieces,
            Pieces({"", "", "a\u00E9", ""}));
  const Streamed replaced = StreamWords({"a", "\xC3", "b"}, {.stop_strings = {"a\uFFFD"}});
  EXPECT_EQ(replaced.joined, "");
  EXPECT_EQ(replaced.stop, "a\uFFFD");
  EXPECT_EQ(StreamWords({"a", "\xC3"}, {.stop_strings = {"a\uFFFD"}}).stop, "a\uFFFD");
}

TEST(StreamDecoder, TheFirstTokensAreNotSearched) {
  const Pieces words = {"a", "stop", "b", "st", "op", "c"};
  EXPECT_EQ(StreamWords(words, {.stop_strings = {"stop"}, .min_tokens = 2}).joined, "astopb");
  EXPECT_EQ(StreamWords(words, {.stop_strings = {"stop"}, .min_tokens = 1}).joined, "a");
  // A stop must lie wholly in the text of later tokens.
  EXPECT_EQ(StreamWords(words, {.stop_strings = {"stop"}, .min_tokens = 4}).joined, "astopbstopc");
  EXPECT_EQ(StreamWords(words, {.stop_strings = {"stop"}, .min_tokens = 2}).pieces[1], "stop");
}

TEST(StreamDecoder, ControlTokensAreLeftOutOrShown) {
  SmallSpec small;
  const int32_t end = small.AddNamed("<|end|>");
  const int32_t tool = small.AddNamed("<tool>", engine::TokenType::kUserDefined);
  const auto tokenizer = MakeTokenizer(small.spec);
  EXPECT_EQ(Stream(*tokenizer, {}, {'a', end, tool}).joined, "a<tool>");
  EXPECT_EQ(Stream(*tokenizer, {.stop_strings = {}, .skip_control = false}, {'a', end}).joined,
            "a<|end|>");
  EXPECT_EQ(Stream(*tokenizer, {.stop_strings = {"ab"}}, {'a', end, 'b'}).stop, "ab");
  EXPECT_EQ(Stream(*tokenizer, {}, {-1, 'a', 1 << 20}).joined, "a");
}

TEST(StreamDecoder, NothingComesAfterTheEnd) {
  const auto tokenizer = MakeTokenizer(SmallSpec().spec);
  StreamDecoder decoder(tokenizer.get(), {});
  decoder.Push('a');
  decoder.Finish();
  EXPECT_EQ(decoder.Push('b').text, "");
  EXPECT_EQ(decoder.Finish().text, "");
}

// Random tokens of few letters, parts of characters and bytes that are never right.
class StreamDecoderProperty : public ::testing::Test {
 protected:
  static constexpr uint64_t kSeed = 20250101;

  StreamDecoderProperty()
      : words_({"a", "b", "ab", "ba", "aab", "\u00E9", "a\xC3", "\xA9", "\xC3",
                "\xA9"
                "b",
                "\xE4\xBD", "\xA0", "\xF0\x9F", "\x98\x80", "\xFF", "\uFFFD", "", "<c>"}) {
    SmallSpec small;
    for (size_t i = 0; i + 1 < words_.size(); ++i) ids_.push_back(small.AddWord(words_[i]));
    ids_.push_back(small.AddNamed(words_.back()));
    tokenizer_ = MakeTokenizer(small.spec);
  }

  size_t Below(size_t n) { return random_() % n; }

  std::vector<int32_t> RandomIds() {
    std::vector<int32_t> ids(Below(25));
    for (int32_t& id : ids) id = ids_[Below(ids_.size())];
    return ids;
  }

  std::vector<std::string> RandomStops() {
    const Pieces letters = {"a", "b", "a", "b", "\u00E9", "\u4F60", "\uFFFD"};
    std::vector<std::string> stops(Below(4));
    for (std::string& stop : stops) {
      for (size_t n = 1 + Below(5); n > 0; --n) stop += letters[Below(letters.size())];
    }
    return stops;
  }

  std::mt19937_64 random_{kSeed};
  Pieces words_;
  std::vector<int32_t> ids_;  // of the words
  std::unique_ptr<const Tokenizer> tokenizer_;
};

TEST_F(StreamDecoderProperty, ThePiecesAreTheDecodedTextUpToTheStop) {
  for (int round = 0; round < 20000; ++round) {
    const std::vector<int32_t> ids = RandomIds();
    const size_t unsearched = std::min(Below(2) * Below(6), ids.size());
    const Options options{.stop_strings = RandomStops(),
                          .include_stop = Below(2) == 0,
                          .skip_control = Below(2) == 0,
                          .min_tokens = static_cast<int32_t>(unsearched)};
    const std::string whole =
        engine::ReplaceInvalidUtf8(tokenizer_->Decode(ids, options.skip_control));
    // What the first tokens have made certain; a character that they leave unfinished is not
    // theirs.
    std::string first;
    engine::AppendReplacingInvalid(
        tokenizer_->Decode(std::span(ids).first(unsearched), options.skip_control), &first);
    std::optional<StopAt> stop;
    if (unsearched < ids.size()) {
      stop = FirstStop(options.stop_strings, std::string_view(whole).substr(first.size()));
    }
    const Streamed out = Stream(*tokenizer_, options, ids);
    const auto where = ::testing::Message() << "seed " << kSeed << " round " << round;
    ASSERT_EQ(out.stop, stop ? std::optional(stop->stop) : std::nullopt) << where;
    const size_t end =
        !stop ? whole.size() : first.size() + (options.include_stop ? stop->end : stop->begin);
    ASSERT_EQ(out.joined, whole.substr(0, end)) << where;
  }
}

// After every token, everything is out but an unfinished character and what a stop may begin with.
// Tokens of whole characters, so that "may" has one meaning.
TEST_F(StreamDecoderProperty, NothingIsHeldWithoutNeed) {
  for (int round = 0; round < 20000; ++round) {
    const std::vector<std::string> stops = RandomStops();
    StreamDecoder decoder(tokenizer_.get(), {.stop_strings = stops});
    std::string given;
    std::string decoded;
    for (size_t n = Below(25); n > 0; --n) {
      const size_t word = Below(6);
      decoded += words_[word];
      const StreamDecoder::Piece piece = decoder.Push(ids_[word]);
      given += piece.text;
      // Once a stop is in the text the rest waits for nothing but an earlier stop.
      if (piece.stop_matched || FirstStop(stops, decoded)) break;
      ASSERT_EQ(given, decoded.substr(0, decoded.size() - LongestPartialStop(stops, decoded)))
          << "seed " << kSeed << " round " << round;
    }
  }
}

TEST_F(StreamDecoderProperty, WithoutStopsOnlyAnUnfinishedCharacterIsHeld) {
  for (int round = 0; round < 5000; ++round) {
    StreamDecoder decoder(tokenizer_.get(), {});
    std::string given;
    std::string bytes;
    for (int32_t id : RandomIds()) {
      given += decoder.Push(id).text;
      if (!tokenizer_->IsControl(id)) bytes += tokenizer_->TokenBytes(id);
      std::string certain;
      engine::AppendReplacingInvalid(bytes, &certain);
      ASSERT_EQ(given, certain) << "seed " << kSeed << " round " << round;
    }
  }
}

// A stop of many letters and a text that keeps almost matching: quadratic work would outlast the
// time limit.
TEST(StreamDecoder, LongStopsAndLongTextsTakeLinearTime) {
  SmallSpec small;
  const int32_t letters = small.AddWord(std::string(100, 'a'));
  const auto tokenizer = MakeTokenizer(small.spec);
  const std::string stop = std::string(100'000, 'a') + "b";
  StreamDecoder decoder(tokenizer.get(), {.stop_strings = {stop}});
  size_t given = 0;
  for (int i = 0; i < 20'000; ++i) given += decoder.Push(letters).text.size();
  EXPECT_EQ(given, 2'000'000u - 100'000u);
  EXPECT_EQ(decoder.Finish().text.size(), 100'000u);
}

}  // namespace
}  // namespace sluice::testing
