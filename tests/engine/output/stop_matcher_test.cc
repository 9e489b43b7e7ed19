#include "engine/output/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/engine/output/by_definition.h"

namespace sluice::testing {
namespace {

using engine::StopMatcher;

// Feeds `text` in one part; the match as "begin-end:index", or "none".
std::string Found(const std::vector<std::string>& stops, std::string_view text) {
  StopMatcher matcher(stops);
  if (!matcher.Push(text) && !matcher.Finish()) return "none";
  const StopMatcher::Match& match = matcher.match();
  return std::to_string(match.begin) + "-" + std::to_string(match.end) + ":" +
         std::to_string(match.index);
}

TEST(StopMatcher, TheOneThatBeginsEarliest) {
  EXPECT_EQ(Found({"stop", "top"}, "stop!"), "0-4:0");
  EXPECT_EQ(Found({"top", "stop"}, "stop!"), "0-4:1");
  EXPECT_EQ(Found({"bc", "abcd"}, "abcd"), "0-4:1");
  EXPECT_EQ(Found({"bc", "abcd"}, "abce"), "1-3:0");
  EXPECT_EQ(Found({"bc", "abcd"}, "abc"), "1-3:0");
}

TEST(StopMatcher, OfThoseThatBeginTogetherTheOneThatEndsFirst) {
  EXPECT_EQ(Found({"ab", "a"}, "xab"), "1-2:1");
  EXPECT_EQ(Found({"a", "a"}, "a"), "0-1:0");
}

TEST(StopMatcher, OverlapsOfAStringWithItself) {
  EXPECT_EQ(Found({"aab"}, "aaab"), "1-4:0");
  EXPECT_EQ(Found({"abab"}, "aabaabab"), "4-8:0");
}

TEST(StopMatcher, EmptyAndInvalidStringsNeverMatch) {
  EXPECT_TRUE(StopMatcher({}).empty());
  EXPECT_TRUE(StopMatcher({"", "\xFF", "\xA9", "\xE2\x80"}).empty());
  EXPECT_EQ(Found({"", "\xA9", "b"}, "\u00E9"), "none");
  EXPECT_EQ(Found({"", "\xA9", "b"}, "ab"), "1-2:2");
}

// Ends that lie before an earlier start are not final until that start has failed.
TEST(StopMatcher, WaitsWhileAnEarlierOneMayStillCome) {
  StopMatcher matcher({"bc", "abcd"});
  EXPECT_FALSE(matcher.Push("xabc"));
  EXPECT_EQ(matcher.Held(), 3u);
  EXPECT_TRUE(matcher.Push("x"));
  EXPECT_EQ(matcher.match().begin, 2u);
}

TEST(StopMatcher, EqualsTheDefinitionHoweverTheTextIsCut) {
  const uint64_t seed = 31;
  std::mt19937_64 random(seed);
  for (int round = 0; round < 5000; ++round) {
    const auto word = [&](size_t longest) {
      std::string text(1 + random() % longest, 'a');
      for (char& c : text) c = static_cast<char>('a' + random() % 2);
      return text;
    };
    std::vector<std::string> stops(1 + random() % 4);
    for (std::string& stop : stops) stop = word(6);
    const std::string text = word(30);
    StopMatcher matcher(stops);
    bool found = false;
    for (size_t at = 0; at < text.size() && !found;) {
      const size_t part = 1 + random() % 4;
      found = matcher.Push(std::string_view(text).substr(at, part));
      at += part;
    }
    const std::optional<StopAt> expected = FirstStop(stops, text);
    const auto where = ::testing::Message() << "seed " << seed << " round " << round << " " << text;
    ASSERT_EQ(found || matcher.Finish(), expected.has_value()) << where;
    if (!expected) continue;
    ASSERT_EQ(matcher.match().begin, expected->begin) << where;
    ASSERT_EQ(matcher.match().end, expected->end) << where;
    ASSERT_EQ(stops[matcher.match().index], expected->stop) << where;
  }
}

}  // namespace
}  // namespace sluice::testing
