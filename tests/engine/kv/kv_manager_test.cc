// KvManager grows tables all or nothing, gives back what it is told to, and can prove that no block
// is lost.
#include "engine/kv/kv_manager.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <vector>

namespace sluice::engine {
namespace {

std::vector<int32_t> Blocks(const BlockTable& table) {
  return {table.blocks().begin(), table.blocks().end()};
}

TEST(KvManagerTest, ATableCoversItsTokens) {
  KvManager kv(10, 16);
  BlockTable table;
  EXPECT_TRUE(kv.Grow(&table, 0));
  EXPECT_EQ(table.size(), 0);
  EXPECT_TRUE(kv.Grow(&table, 1));
  EXPECT_EQ(table.size(), 1);
  EXPECT_TRUE(kv.Grow(&table, 16));
  EXPECT_EQ(table.size(), 1);
  EXPECT_TRUE(kv.Grow(&table, 17));
  EXPECT_EQ(table.size(), 2);
  EXPECT_TRUE(kv.Grow(&table, 5)) << "a table never shrinks";
  EXPECT_EQ(table.size(), 2);
  EXPECT_EQ(kv.used_blocks(), 2);
  EXPECT_EQ(kv.free_blocks(), 8);
}

TEST(KvManagerTest, GrowthKeepsTheBlocksThatAreThere) {
  KvManager kv(10, 4);
  BlockTable table;
  ASSERT_TRUE(kv.Grow(&table, 8));
  const std::vector<int32_t> before = Blocks(table);
  ASSERT_TRUE(kv.Grow(&table, 20));
  const std::vector<int32_t> after = Blocks(table);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), after.begin()));
}

TEST(KvManagerTest, GrowIsAllOrNothing) {
  KvManager kv(4, 4);
  BlockTable big, small;
  ASSERT_TRUE(kv.Grow(&big, 9));
  EXPECT_FALSE(kv.Grow(&small, 5)) << "two blocks are needed, one is free";
  EXPECT_EQ(small.size(), 0);
  EXPECT_EQ(kv.free_blocks(), 1);
  EXPECT_TRUE(kv.Grow(&small, 4));
  EXPECT_FALSE(kv.Grow(&big, 13));
  EXPECT_EQ(big.size(), 3);
  kv.Release(&small);
  EXPECT_TRUE(kv.Grow(&big, 13));
}

TEST(KvManagerTest, CountsBlocksWithoutOverflow) {
  KvManager kv(1, 16);
  EXPECT_EQ(kv.BlocksFor(2147483647), 134217728);
  BlockTable table;
  EXPECT_FALSE(kv.Grow(&table, 2147483647));
}

TEST(KvManagerTest, IntegrityNamesALostBlock) {
  KvManager kv(4, 4);
  BlockTable table;
  ASSERT_TRUE(kv.Grow(&table, 8));
  const std::array<const BlockTable*, 1> all = {&table};
  EXPECT_TRUE(kv.CheckIntegrity(all).ok());
  EXPECT_NE(Message(kv.CheckIntegrity({})).find("has 0 holders"), std::string::npos);
  const std::array<const BlockTable*, 2> twice = {&table, &table};
  EXPECT_NE(Message(kv.CheckIntegrity(twice)).find("has 2 holders"), std::string::npos);
}

TEST(KvManagerTest, RandomGrowthAndReleaseLoseNothing) {
  constexpr uint32_t kSeed = 20260801;
  SCOPED_TRACE(kSeed);
  std::mt19937 random(kSeed);
  KvManager kv(50, 3);
  std::vector<BlockTable> tables(12);
  std::vector<const BlockTable*> all;
  for (const BlockTable& table : tables) all.push_back(&table);
  for (int i = 0; i < 20000; ++i) {
    BlockTable& table = tables[random() % tables.size()];
    const int32_t free = kv.free_blocks();
    if (random() % 3 == 0) {
      const int32_t size = table.size();
      kv.Release(&table);
      ASSERT_EQ(table.size(), 0);
      ASSERT_EQ(kv.free_blocks(), free + size);
    } else {
      const int32_t tokens = static_cast<int32_t>(random() % 40);
      const int32_t missing = std::max(0, kv.BlocksFor(tokens) - table.size());
      const int32_t size = table.size();
      ASSERT_EQ(kv.Grow(&table, tokens), missing <= free);
      ASSERT_EQ(table.size(), missing <= free ? size + missing : size);
    }
    ASSERT_TRUE(kv.CheckIntegrity(all).ok()) << kv.CheckIntegrity(all);
  }
}

}  // namespace
}  // namespace sluice::engine
