#include "engine/kv/kv_manager.h"

#include <algorithm>
#include <string>
#include <vector>

#include "engine/base/check.h"

namespace sluice::engine {

KvManager::KvManager(int32_t blocks, int32_t block_size, bool share_prefixes)
    : pool_(blocks),
      index_(blocks, block_size),
      holders_(static_cast<size_t>(blocks), 0),
      block_size_(block_size),
      share_prefixes_(share_prefixes) {}

int32_t KvManager::BlocksFor(int32_t tokens) const {
  return tokens / block_size_ + (tokens % block_size_ != 0 ? 1 : 0);
}

std::span<const int32_t> KvManager::BlockTokens(std::span<const int32_t> tokens, int32_t i) const {
  return tokens.subspan(static_cast<size_t>(i) * static_cast<size_t>(block_size_),
                        static_cast<size_t>(block_size_));
}

void KvManager::FindPrefix(std::string_view salt, std::span<const int32_t> tokens, int32_t most,
                           PrefixMatch* match) const {
  match->blocks.clear();
  match->copy_from = -1;
  match->copy_tokens = match->idle = 0;
  match->pending = false;
  if (!share_prefixes_) return;
  int32_t parent = index_.FindRoot(salt);
  if (parent < 0) return;
  const auto length = static_cast<int32_t>(tokens.size());
  for (int32_t i = 0; (i + 1) * block_size_ <= length; ++i) {
    const int32_t block = index_.Find(parent, BlockTokens(tokens, i));
    if (block < 0) break;
    if (index_.IsPending(block)) {
      match->pending = true;
      return;
    }
    if ((i + 1) * block_size_ > most) break;
    match->blocks.push_back(block);
    if (index_.IsIdle(block)) ++match->idle;
    parent = block;
  }
  const int32_t found = static_cast<int32_t>(match->blocks.size()) * block_size_;
  const auto rest = tokens.subspan(static_cast<size_t>(found),
                                   static_cast<size_t>(std::min(most - found, block_size_)));
  const PrefixIndex::Partial partial = index_.FindPartial(parent, rest);
  match->copy_from = partial.block;
  match->copy_tokens = partial.tokens;
}

int32_t KvManager::TakeBlock() {
  int32_t block;
  if (pool_.free() > 0) {
    block = pool_.Take();
  } else {
    const int32_t given_up = index_.Evict();
    ENGINE_CHECK(given_up >= 0) << "no block is free";
    pool_.Return(given_up);
    block = pool_.Take();
  }
  holders_[static_cast<size_t>(block)] = 1;
  return block;
}

bool KvManager::Begin(PrefixMatch* match, int32_t tokens, BlockTable* table,
                      std::vector<BlockCopy>* copies) {
  ENGINE_CHECK(table->blocks_.empty()) << table->size() << " blocks";
  if (BlocksTaken(*match, tokens) > free_blocks()) return false;
  for (const int32_t block : match->blocks) {
    ++holders_[static_cast<size_t>(block)];
    index_.SetBusy(block);
    table->blocks_.push_back(block);
  }
  table->indexed_ = table->size();
  // What is copied from may not be given up before it is copied.
  const bool held = match->copy_from >= 0 && index_.IsIdle(match->copy_from);
  if (held) index_.SetBusy(match->copy_from);
  bool grown = Grow(table, tokens);
  if (held) index_.SetIdle(match->copy_from);
  if (!grown) {
    // It is the last block: the tokens are computed instead.
    match->copy_from = -1;
    match->copy_tokens = 0;
    grown = Grow(table, tokens);
    ENGINE_CHECK(grown) << "blocks are miscounted";
  }
  if (match->copy_from >= 0) {
    copies->push_back({match->copy_from, table->blocks_[static_cast<size_t>(table->indexed_)]});
  }
  return true;
}

bool KvManager::Grow(BlockTable* table, int32_t tokens) {
  const int32_t missing = BlocksFor(tokens) - table->size();
  if (missing <= 0) return true;
  if (missing > free_blocks()) return false;
  for (int32_t i = 0; i < missing; ++i) table->blocks_.push_back(TakeBlock());
  return true;
}

int32_t KvManager::ParentOf(const BlockTable& table, std::string_view salt, int32_t i) const {
  return i == 0 ? index_.FindRoot(salt) : table.blocks_[static_cast<size_t>(i - 1)];
}

// Block i of the table becomes a node, unless an equal one is there already: then it and all that
// follows stay out.
bool KvManager::IndexBlock(BlockTable* table, std::string_view salt,
                           std::span<const int32_t> tokens, int32_t i, bool pending) {
  int32_t parent = ParentOf(*table, salt, i);
  const int32_t block = table->blocks_[static_cast<size_t>(i)];
  const std::span<const int32_t> own = BlockTokens(tokens, i);
  if (parent >= 0 && index_.Find(parent, own) >= 0) {
    if (index_.Contains(block)) index_.Remove(block);
    table->detached_ = true;
    return false;
  }
  if (index_.Contains(block)) {
    index_.Extend(block, own);
    return true;
  }
  if (parent < 0) parent = index_.MakeRoot(salt);
  index_.Insert(parent, block, own, pending);
  return true;
}

void KvManager::Announce(BlockTable* table, std::string_view salt,
                         std::span<const int32_t> tokens) {
  if (!share_prefixes_ || table->detached_) return;
  const int32_t whole = static_cast<int32_t>(tokens.size()) / block_size_;
  for (int32_t i = table->indexed_; i < whole; ++i) {
    const int32_t block = table->blocks_[static_cast<size_t>(i)];
    if (index_.Contains(block)) {
      // Announced before, or the tail of what is computed: that one is found as it is.
      if (index_.IsPending(block)) continue;
      return;
    }
    if (!IndexBlock(table, salt, tokens, i, true)) return;
  }
}

void KvManager::Publish(BlockTable* table, std::string_view salt, std::span<const int32_t> tokens) {
  if (!share_prefixes_) return;
  const int32_t whole = static_cast<int32_t>(tokens.size()) / block_size_;
  for (; table->indexed_ < whole; ++table->indexed_) {
    const int32_t block = table->blocks_[static_cast<size_t>(table->indexed_)];
    if (index_.Contains(block) && index_.IsPending(block)) {
      index_.MarkComputed(block);
    } else if (table->detached_ || !IndexBlock(table, salt, tokens, table->indexed_, false)) {
      return;
    }
  }
}

void KvManager::PublishTail(BlockTable* table, std::string_view salt,
                            std::span<const int32_t> tokens) {
  const auto count = static_cast<int32_t>(tokens.size());
  if (!share_prefixes_ || table->detached_ || count % block_size_ == 0) return;
  const int32_t i = count / block_size_;
  if (table->indexed_ != i) return;
  const int32_t block = table->blocks_[static_cast<size_t>(i)];
  const auto own = tokens.subspan(static_cast<size_t>(i) * static_cast<size_t>(block_size_));
  if (!index_.Contains(block)) {
    int32_t parent = ParentOf(*table, salt, i);
    if (parent < 0) parent = index_.MakeRoot(salt);
    index_.Insert(parent, block, own, false);
  } else if (index_.FilledTokens(block) < static_cast<int32_t>(own.size())) {
    index_.Extend(block, own);
  }
}

void KvManager::Forget(BlockTable* table) {
  for (size_t i = table->blocks_.size(); i > 0; --i) {
    const int32_t block = table->blocks_[i - 1];
    if (!index_.Contains(block)) continue;
    if (holders_[static_cast<size_t>(block)] > 1 || index_.HasChildren(block)) return;
    index_.Remove(block);
    table->indexed_ = std::min(table->indexed_, static_cast<int32_t>(i) - 1);
    table->detached_ = true;
  }
}

void KvManager::Release(BlockTable* table) {
  // Last block first: what comes after in a sequence is given up before what it follows, and a
  // table that grows again soon gets its blocks in their old order.
  for (size_t i = table->blocks_.size(); i > 0; --i) {
    const int32_t block = table->blocks_[i - 1];
    int32_t& holders = holders_[static_cast<size_t>(block)];
    ENGINE_CHECK(holders > 0) << "block " << block << " is held by nobody";
    if (--holders > 0) continue;
    if (index_.Contains(block) && !index_.IsPending(block)) {
      index_.SetIdle(block);
      continue;
    }
    if (index_.Contains(block)) index_.Remove(block);
    pool_.Return(block);
  }
  table->blocks_.clear();
  table->indexed_ = 0;
  table->detached_ = false;
}

absl::Status KvManager::CheckIntegrity(std::span<const BlockTable* const> tables) const {
  const auto broken = [](int32_t block, const std::string& what) {
    return Internal("block " + std::to_string(block) + " " + what);
  };
  std::vector<int32_t> counts(static_cast<size_t>(pool_.total()), 0);
  for (const BlockTable* table : tables) {
    for (const int32_t block : table->blocks()) {
      if (block < 0 || block >= pool_.total()) return broken(block, "does not exist");
      ++counts[static_cast<size_t>(block)];
      if (!pool_.IsTaken(block)) return broken(block, "is in a table and free");
    }
  }
  for (int32_t block = 0; block < pool_.total(); ++block) {
    const int32_t count = counts[static_cast<size_t>(block)];
    if (count != holders_[static_cast<size_t>(block)])
      return broken(block, "has " + std::to_string(count) + " holders, counted as " +
                               std::to_string(holders_[static_cast<size_t>(block)]));
    const bool idle = index_.Contains(block) && index_.IsIdle(block);
    if (count > 0 && idle) return broken(block, "is in a table and idle");
    if (count == 0 && pool_.IsTaken(block) && !idle) return broken(block, "is lost");
    if (!pool_.IsTaken(block) && index_.Contains(block)) return broken(block, "is free and a node");
  }
  std::vector<int32_t> free_seen(static_cast<size_t>(pool_.total()), 0);
  for (const int32_t block : pool_.free_blocks()) {
    if (++free_seen[static_cast<size_t>(block)] > 1) return broken(block, "is free twice");
  }
  if (const std::string error = index_.Check(); !error.empty()) return Internal(error);
  return absl::OkStatus();
}

}  // namespace sluice::engine
