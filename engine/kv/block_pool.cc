#include "engine/kv/block_pool.h"

#include "engine/base/check.h"

namespace sluice::engine {

BlockPool::BlockPool(int32_t blocks) {
  ENGINE_CHECK(blocks >= 0) << blocks;
  taken_.assign(static_cast<size_t>(blocks), 0);
  free_.reserve(static_cast<size_t>(blocks));
  for (int32_t block = blocks - 1; block >= 0; --block) free_.push_back(block);
}

int32_t BlockPool::Take() {
  ENGINE_CHECK(!free_.empty()) << "of " << total() << " blocks";
  const int32_t block = free_.back();
  free_.pop_back();
  taken_[static_cast<size_t>(block)] = 1;
  return block;
}

void BlockPool::Return(int32_t block) {
  ENGINE_CHECK(block >= 0 && block < total()) << "block " << block << " of " << total();
  ENGINE_CHECK(IsTaken(block)) << "block " << block << " is free already";
  taken_[static_cast<size_t>(block)] = 0;
  free_.push_back(block);
}

}  // namespace sluice::engine
