#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice::engine {

// The KV blocks of one sequence, in the order of its positions: block i holds positions
// [i * block_size, (i + 1) * block_size). Leading blocks may be shared with other tables; none that
// is shared is ever written to. Written by KvManager alone; moved, never copied, since each entry
// counts as a holder of its block. Engine thread only.
class BlockTable {
 public:
  BlockTable() = default;
  BlockTable(BlockTable&&) = default;
  BlockTable& operator=(BlockTable&&) = default;
  BlockTable(const BlockTable&) = delete;
  BlockTable& operator=(const BlockTable&) = delete;

  std::span<const int32_t> blocks() const { return blocks_; }
  int32_t size() const { return static_cast<int32_t>(blocks_.size()); }
  // Makes room for so many blocks, so that growing to them allocates nothing.
  void Reserve(int32_t blocks) { blocks_.reserve(static_cast<size_t>(blocks)); }

 private:
  friend class KvManager;
  std::vector<int32_t> blocks_;
  int32_t indexed_ = 0;  // leading blocks that are whole nodes of the prefix index
  // Another table's block with the same tokens is in the index in place of this one's next: what
  // follows can't be.
  bool detached_ = false;
};

}  // namespace sluice::engine
