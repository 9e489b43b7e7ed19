#include "engine/tokenizer/control_scanner.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

namespace sluice::engine {
namespace {

ControlScanner ScannerOf(const std::map<std::string, int32_t>& names) {
  ControlScanner scanner;
  for (const auto& [name, id] : names) scanner.Add(name, id);
  return scanner;
}

std::vector<std::pair<size_t, int32_t>> AllHits(const ControlScanner& scanner,
                                                const std::string& text) {
  std::vector<std::pair<size_t, int32_t>> hits;
  size_t at = 0;
  while (const auto hit = scanner.Next(text, at)) {
    hits.emplace_back(hit->begin, hit->id);
    at = hit->begin + hit->length;
  }
  return hits;
}

using Hits = std::vector<std::pair<size_t, int32_t>>;

TEST(ControlScanner, TheLeftmostThenTheLongest) {
  const ControlScanner scanner = ScannerOf({{"<a", 1}, {"<a><b>", 2}, {"a>", 3}, {"<b>", 4}});
  EXPECT_EQ(AllHits(scanner, "<a><b>"), Hits({{0, 2}}));
  EXPECT_EQ(AllHits(scanner, "<a><c>"), Hits({{0, 1}}));
  EXPECT_EQ(AllHits(scanner, "xa><b"), Hits({{1, 3}}));
  EXPECT_EQ(AllHits(scanner, "<<b><b>"), Hits({{1, 4}, {4, 4}}));
}

TEST(ControlScanner, WithoutNamesOrTextThereIsNothing) {
  EXPECT_FALSE(ControlScanner().Next("text", 0));
  const ControlScanner scanner = ScannerOf({{"<x>", 1}});
  EXPECT_FALSE(scanner.Next("", 0));
  EXPECT_FALSE(scanner.Next("<x", 0));
  EXPECT_FALSE(scanner.Next("<x>", 1));
  EXPECT_FALSE(scanner.Next("<x>", 3));
}

TEST(ControlScanner, EqualsASearchAtEveryPlace) {
  const uint64_t seed = 7;
  std::mt19937_64 random(seed);
  for (int round = 0; round < 500; ++round) {
    const auto word = [&](size_t longest) {
      std::string text(1 + random() % longest, 'a');
      for (char& c : text) c = static_cast<char>('a' + random() % 3);
      return text;
    };
    std::map<std::string, int32_t> names;
    for (int32_t id = 0; id < 5; ++id) names.emplace(word(4), id);
    const std::string text = word(40);
    Hits expected;
    for (size_t at = 0; at < text.size();) {
      size_t longest = 0;
      int32_t id = -1;
      for (const auto& [name, name_id] : names) {
        if (text.compare(at, name.size(), name) == 0 && name.size() > longest) {
          longest = name.size();
          id = name_id;
        }
      }
      if (longest > 0) expected.emplace_back(at, id);
      at += std::max<size_t>(longest, 1);
    }
    ASSERT_EQ(AllHits(ScannerOf(names), text), expected) << "seed " << seed << " round " << round;
  }
}

}  // namespace
}  // namespace sluice::engine
