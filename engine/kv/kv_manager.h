#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/kv/block_pool.h"
#include "engine/kv/block_table.h"
#include "engine/kv/prefix_index.h"
#include "engine/plan/step_plan.h"

namespace sluice::engine {

// The beginning of a sequence that is in memory already.
struct PrefixMatch {
  std::vector<int32_t> blocks;  // whole ones, computed
  int32_t copy_from = -1;       // a block whose first copy_tokens tokens come next, or -1
  int32_t copy_tokens = 0;
  bool pending = false;  // the next whole block is just being computed for another sequence
  int32_t idle = 0;      // of `blocks`, those that no sequence holds now

  int32_t tokens(int32_t block_size) const {
    return static_cast<int32_t>(blocks.size()) * block_size + copy_tokens;
  }
};

// Hands KV blocks to sequences, and lets sequences that begin alike share them. Knows ids and
// tokens, never memory. Engine thread only.
//
// Always true: each block is free, or idle in the prefix index, or held by as many tables as its
// count says. A block is written to only while one table holds it, at positions that the index does
// not know.
//
// `tokens` is always the sequence's from its first on; `salt` is what its keys and values depend on
// besides.
class KvManager {
 public:
  // `blocks` of `block_size` tokens each; the numbers of the executor. Without `share_prefixes` no
  // block is ever shared or kept.
  KvManager(int32_t blocks, int32_t block_size, bool share_prefixes = true);

  // What is there of the first `most` of `tokens`. `match` is overwritten (and its memory kept).
  void FindPrefix(std::string_view salt, std::span<const int32_t> tokens, int32_t most,
                  PrefixMatch* match) const;
  // Blocks that a table of `tokens` tokens that begins with the match takes from the free ones.
  int32_t BlocksTaken(const PrefixMatch& match, int32_t tokens) const {
    return BlocksFor(tokens) - static_cast<int32_t>(match.blocks.size()) + match.idle;
  }
  // The empty `table` begins with the match and covers `tokens` tokens, of which those of the match
  // are computed once the copy appended to `copies` is made, if any. When the block to copy from is
  // the last one that could be copied to, the match loses its copy. False, and nothing is changed,
  // when too few blocks are free.
  bool Begin(PrefixMatch* match, int32_t tokens, BlockTable* table, std::vector<BlockCopy>* copies);
  // Makes `table` cover positions 0 .. tokens-1. All or nothing: false, and nothing is changed,
  // when too few blocks are free. Never shrinks a table.
  bool Grow(BlockTable* table, int32_t tokens);

  // `tokens` are planned to be computed: others who begin alike had better wait for their whole
  // blocks.
  void Announce(BlockTable* table, std::string_view salt, std::span<const int32_t> tokens);
  // `tokens` are computed: their whole blocks may be shared.
  void Publish(BlockTable* table, std::string_view salt, std::span<const int32_t> tokens);
  // After Publish, the tokens of the last block that is not whole, too.
  void PublishTail(BlockTable* table, std::string_view salt, std::span<const int32_t> tokens);
  // What only this table holds is not to be shared after all: its contents are in doubt.
  void Forget(BlockTable* table);

  // The table gives up its blocks and becomes empty.
  void Release(BlockTable* table);

  int32_t BlocksFor(int32_t tokens) const;
  int32_t block_size() const { return block_size_; }
  int32_t total_blocks() const { return pool_.total(); }
  // Those that a table can have: nobody holds them.
  int32_t free_blocks() const { return pool_.free() + index_.idle(); }
  int32_t used_blocks() const { return pool_.total() - free_blocks(); }
  int32_t idle_blocks() const { return index_.idle(); }

  // Internal, naming the block, unless what is always true is, `tables` being all that exist.
  // Linear in the blocks: for tests.
  absl::Status CheckIntegrity(std::span<const BlockTable* const> tables) const;

 private:
  int32_t TakeBlock();
  // Block i of the table as a node of the index; -1 for the root of a salt without nodes.
  int32_t ParentOf(const BlockTable& table, std::string_view salt, int32_t i) const;
  std::span<const int32_t> BlockTokens(std::span<const int32_t> tokens, int32_t i) const;
  bool IndexBlock(BlockTable* table, std::string_view salt, std::span<const int32_t> tokens,
                  int32_t i, bool pending);

  BlockPool pool_;
  PrefixIndex index_;
  std::vector<int32_t> holders_;
  const int32_t block_size_;
  const bool share_prefixes_;
};

}  // namespace sluice::engine
