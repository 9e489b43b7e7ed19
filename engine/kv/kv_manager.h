#pragma once

#include <cstdint>
#include <span>

#include "engine/base/status.h"
#include "engine/kv/block_pool.h"
#include "engine/kv/block_table.h"

namespace sluice::engine {

// Hands KV blocks to sequences. Knows ids, never memory. Engine thread only. Always true: each
// block is free or in exactly one table.
class KvManager {
 public:
  // `blocks` of `block_size` tokens each; the numbers of the executor.
  KvManager(int32_t blocks, int32_t block_size);

  // Makes `table` cover positions 0 .. tokens-1. All or nothing: false, and nothing is changed,
  // when too few blocks are free. Never shrinks a table.
  bool Grow(BlockTable* table, int32_t tokens);
  // All blocks of `table` become free; the table becomes empty.
  void Release(BlockTable* table);

  int32_t BlocksFor(int32_t tokens) const;
  int32_t block_size() const { return block_size_; }
  int32_t total_blocks() const { return pool_.total(); }
  int32_t free_blocks() const { return pool_.free(); }
  int32_t used_blocks() const { return pool_.total() - pool_.free(); }

  // Internal, naming the block, unless every block is free or in exactly one of `tables` (all that
  // exist). Linear in the blocks: for tests.
  absl::Status CheckIntegrity(std::span<const BlockTable* const> tables) const;

 private:
  BlockPool pool_;
  const int32_t block_size_;
};

}  // namespace sluice::engine
