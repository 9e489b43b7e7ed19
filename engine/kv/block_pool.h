#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::engine {

// Which KV blocks are free. Ids are 0 .. total-1; take and give back in O(1), the block given back
// last is taken first (its memory is likeliest still in a cache). Engine thread only.
class BlockPool {
 public:
  explicit BlockPool(int32_t blocks);

  // A free block, now the caller's. There must be one.
  int32_t Take();
  // The caller's block becomes free. A block that is free already is our bug: ends the process.
  void Return(int32_t block);

  int32_t total() const { return static_cast<int32_t>(taken_.size()); }
  int32_t free() const { return static_cast<int32_t>(free_.size()); }
  bool IsTaken(int32_t block) const { return taken_[static_cast<size_t>(block)] != 0; }
  // The free blocks, in no order of meaning.
  const std::vector<int32_t>& free_blocks() const { return free_; }

 private:
  std::vector<int32_t> free_;  // a stack
  std::vector<uint8_t> taken_;
};

}  // namespace sluice::engine
