#include "engine/kv/kv_manager.h"

#include <string>
#include <vector>

#include "engine/base/check.h"

namespace sluice::engine {

KvManager::KvManager(int32_t blocks, int32_t block_size) : pool_(blocks), block_size_(block_size) {
  ENGINE_CHECK(block_size > 0) << block_size;
}

int32_t KvManager::BlocksFor(int32_t tokens) const {
  return tokens / block_size_ + (tokens % block_size_ != 0 ? 1 : 0);
}

bool KvManager::Grow(BlockTable* table, int32_t tokens) {
  const int32_t missing = BlocksFor(tokens) - table->size();
  if (missing <= 0) return true;
  if (missing > pool_.free()) return false;
  for (int32_t i = 0; i < missing; ++i) table->blocks_.push_back(pool_.Take());
  return true;
}

void KvManager::Release(BlockTable* table) {
  // Last block first: a table that grows again soon gets its blocks in their old order.
  for (size_t i = table->blocks_.size(); i > 0; --i) pool_.Return(table->blocks_[i - 1]);
  table->blocks_.clear();
}

absl::Status KvManager::CheckIntegrity(std::span<const BlockTable* const> tables) const {
  std::vector<int32_t> holders(static_cast<size_t>(pool_.total()), 0);
  for (const BlockTable* table : tables) {
    for (const int32_t block : table->blocks()) {
      if (block < 0 || block >= pool_.total())
        return Internal("block " + std::to_string(block) + " does not exist");
      ++holders[static_cast<size_t>(block)];
      if (!pool_.IsTaken(block))
        return Internal("block " + std::to_string(block) + " is in a table and free");
    }
  }
  for (const int32_t block : pool_.free_blocks()) ++holders[static_cast<size_t>(block)];
  for (size_t block = 0; block < holders.size(); ++block) {
    if (holders[block] != 1)
      return Internal("block " + std::to_string(block) + " has " + std::to_string(holders[block]) +
                      " holders");
  }
  return absl::OkStatus();
}

}  // namespace sluice::engine
