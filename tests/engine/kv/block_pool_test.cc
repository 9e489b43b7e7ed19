// BlockPool hands out each block once, and knows a block that comes back twice.
#include "engine/kv/block_pool.h"

#include <gtest/gtest.h>

#include <set>

namespace sluice::engine {
namespace {

TEST(BlockPoolTest, HandsOutEveryBlockOnce) {
  BlockPool pool(100);
  std::set<int32_t> taken;
  while (pool.free() > 0) taken.insert(pool.Take());
  EXPECT_EQ(taken.size(), 100u);
  EXPECT_EQ(*taken.begin(), 0);
  EXPECT_EQ(*taken.rbegin(), 99);
}

TEST(BlockPoolTest, TheBlockGivenBackLastIsTakenFirst) {
  BlockPool pool(3);
  const int32_t a = pool.Take();
  const int32_t b = pool.Take();
  pool.Return(a);
  pool.Return(b);
  EXPECT_EQ(pool.free(), 3);
  EXPECT_FALSE(pool.IsTaken(b));
  EXPECT_EQ(pool.Take(), b);
  EXPECT_TRUE(pool.IsTaken(b));
}

TEST(BlockPoolDeathTest, ABlockReturnedTwiceEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  BlockPool pool(2);
  const int32_t block = pool.Take();
  pool.Return(block);
  EXPECT_DEATH(pool.Return(block), "is free already");
  EXPECT_DEATH(pool.Return(2), "block 2 of 2");
  EXPECT_DEATH(pool.Return(-1), "block -1 of 2");
}

TEST(BlockPoolDeathTest, TakingFromAnEmptyPoolEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  BlockPool pool(0);
  EXPECT_DEATH(pool.Take(), "of 0 blocks");
}

}  // namespace
}  // namespace sluice::engine
