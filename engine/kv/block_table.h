#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice::engine {

// The KV blocks of one sequence, in the order of its positions: block i holds positions
// [i * block_size, (i + 1) * block_size). Written by KvManager alone; moved, never copied, since
// each block has one owner. Engine thread only.
class BlockTable {
 public:
  BlockTable() = default;
  BlockTable(BlockTable&&) = default;
  BlockTable& operator=(BlockTable&&) = default;
  BlockTable(const BlockTable&) = delete;
  BlockTable& operator=(const BlockTable&) = delete;

  std::span<const int32_t> blocks() const { return blocks_; }
  int32_t size() const { return static_cast<int32_t>(blocks_.size()); }

 private:
  friend class KvManager;
  std::vector<int32_t> blocks_;
};

}  // namespace sluice::engine
