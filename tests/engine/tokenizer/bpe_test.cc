#include "engine/tokenizer/bpe.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace sluice::engine {
namespace {

using Rules = std::map<std::pair<int32_t, int32_t>, MergeTable::Merge>;

MergeTable TableOf(const Rules& rules) {
  MergeTable table(rules.size());
  for (const auto& [pair, merge] : rules) table.Add(pair.first, pair.second, merge);
  return table;
}

// The definition, word for word: the leftmost pair of lowest rank, again and again.
std::vector<int32_t> ByDefinition(const Rules& rules, std::vector<int32_t> ids) {
  for (;;) {
    MergeTable::Merge best;
    size_t best_at = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto rule = rules.find({ids[i], ids[i + 1]});
      if (rule != rules.end() && rule->second.rank < best.rank) {
        best = rule->second;
        best_at = i;
      }
    }
    if (best.rank == MergeTable::kNever) return ids;
    ids[best_at] = best.result;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best_at) + 1);
  }
}

std::vector<int32_t> Merged(const MergeTable& table, const std::vector<int32_t>& symbols) {
  std::vector<int32_t> out;
  MergeSymbols(table, symbols, &out);
  return out;
}

TEST(Bpe, AppendsAndTakesEmptyAndSingle) {
  const MergeTable table = TableOf({{{1, 2}, {0, 3}}});
  EXPECT_TRUE(Merged(table, {}).empty());
  EXPECT_EQ(Merged(table, {1}), std::vector<int32_t>({1}));
  std::vector<int32_t> out = {9};
  MergeSymbols(table, std::vector<int32_t>({1, 2}), &out);
  EXPECT_EQ(out, std::vector<int32_t>({9, 3}));
}

TEST(Bpe, TheLeftmostOfEqualPairsGoesFirst) {
  const MergeTable table = TableOf({{{1, 1}, {0, 2}}});
  EXPECT_EQ(Merged(table, {1, 1, 1}), std::vector<int32_t>({2, 1}));
  EXPECT_EQ(Merged(table, std::vector<int32_t>(101, 1)).back(), 1);
}

TEST(Bpe, TheFirstMergeOfAPairStands) {
  MergeTable table(2);
  table.Add(1, 2, {5, 7});
  table.Add(1, 2, {6, 8});
  EXPECT_EQ(table.Find(1, 2).result, 7);
  EXPECT_EQ(table.Find(2, 1).rank, MergeTable::kNever);
  EXPECT_EQ(MergeTable().Find(0, 0).rank, MergeTable::kNever);
}

// Random rules over few symbols, so that merges overlap and build on each other, at lengths on both
// sides of the switch from the scan to the heap.
TEST(Bpe, EqualsTheDefinitionOnRandomRules) {
  const uint64_t seed = 20240611;
  std::mt19937_64 random(seed);
  for (int round = 0; round < 400; ++round) {
    const int32_t letters = 1 + static_cast<int32_t>(random() % 4);
    int32_t ids = letters;
    Rules rules;
    const size_t merges = 1 + random() % 60;
    for (uint32_t rank = 0; rank < merges; ++rank) {
      const auto left = static_cast<int32_t>(random() % static_cast<uint64_t>(ids));
      const auto right = static_cast<int32_t>(random() % static_cast<uint64_t>(ids));
      if (rules.emplace(std::pair(left, right), MergeTable::Merge{rank, ids}).second) ++ids;
    }
    const MergeTable table = TableOf(rules);
    std::vector<int32_t> symbols(random() % 150);
    for (int32_t& id : symbols)
      id = static_cast<int32_t>(random() % static_cast<uint64_t>(letters));
    ASSERT_EQ(Merged(table, symbols), ByDefinition(rules, symbols))
        << "seed " << seed << " round " << round;
  }
}

// As a model file may have it: a rank that is used twice through different left sides, results that
// are shared between pairs.
TEST(Bpe, SeveralPairsMayGiveOneToken) {
  const Rules rules = {{{1, 2}, {0, 4}}, {{2, 3}, {1, 5}}, {{1, 5}, {2, 6}}, {{4, 3}, {3, 6}}};
  EXPECT_EQ(Merged(TableOf(rules), {1, 2, 3}), std::vector<int32_t>({6}));
}

}  // namespace
}  // namespace sluice::engine
