#include "engine/kv/prefix_index.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "engine/base/check.h"

namespace sluice::engine {
namespace {

constexpr uint64_t kReusesMax = 8;

// One step of a multiplicative hash (the constant is that of Fibonacci hashing, Knuth 6.4).
uint64_t Stir(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 32);
}

}  // namespace

PrefixIndex::PrefixIndex(int32_t blocks, int32_t block_size)
    : blocks_(blocks), block_size_(block_size) {
  ENGINE_CHECK(blocks >= 0 && block_size > 0) << blocks << " blocks of " << block_size;
  // Each root has a node, but for the one that is being made.
  const auto count = static_cast<size_t>(blocks);
  nodes_.resize(2 * count + 1);
  tokens_.resize(count * static_cast<size_t>(block_size));
  buckets_.assign(std::bit_ceil(2 * count + 1), -1);
  heap_.reserve(count);
  salts_.resize(count + 1);
  for (int32_t root = 2 * blocks; root >= blocks; --root) free_roots_.push_back(root);
  root_of_.reserve(64);
}

int32_t PrefixIndex::FindRoot(std::string_view salt) const {
  const auto it = root_of_.find(std::string(salt));
  return it == root_of_.end() ? -1 : it->second;
}

int32_t PrefixIndex::MakeRoot(std::string_view salt) {
  const auto [it, is_new] = root_of_.try_emplace(std::string(salt), -1);
  if (is_new) {
    ENGINE_CHECK(!free_roots_.empty()) << "more roots than blocks";
    it->second = free_roots_.back();
    free_roots_.pop_back();
    salts_[static_cast<size_t>(it->second - blocks_)] = salt;
  }
  return it->second;
}

std::span<const int32_t> PrefixIndex::TokensOf(int32_t block) const {
  return std::span(tokens_).subspan(static_cast<size_t>(block) * static_cast<size_t>(block_size_),
                                    static_cast<size_t>(NodeOf(block).filled));
}

uint32_t PrefixIndex::Hash(int32_t parent, std::span<const int32_t> tokens) const {
  uint64_t hash = Stir(0x51ed270b7a3c5f1du, static_cast<uint64_t>(parent));
  size_t i = 0;
  for (; i + 1 < tokens.size(); i += 2) {
    uint64_t pair;
    std::memcpy(&pair, &tokens[i], sizeof pair);
    hash = Stir(hash, pair);
  }
  if (i < tokens.size()) hash = Stir(hash, static_cast<uint64_t>(tokens[i]));
  return static_cast<uint32_t>(hash ^ (hash >> 29));
}

int32_t PrefixIndex::Find(int32_t parent, std::span<const int32_t> tokens) const {
  const uint32_t hash = Hash(parent, tokens);
  int32_t id = buckets_[hash & (buckets_.size() - 1)];
  for (; id >= 0; id = NodeOf(id).next_in_bucket) {
    const Node& node = NodeOf(id);
    if (node.hash != hash || node.parent != parent) continue;
    const std::span<const int32_t> own = TokensOf(id);
    if (std::equal(own.begin(), own.end(), tokens.begin(), tokens.end())) return id;
  }
  return -1;
}

PrefixIndex::Partial PrefixIndex::FindPartial(int32_t parent,
                                              std::span<const int32_t> tokens) const {
  Partial best;
  int32_t id = NodeOf(parent).first_child;
  for (int32_t seen = 0; id >= 0 && seen < kChildrenSeen; id = NodeOf(id).next_sibling, ++seen) {
    if (NodeOf(id).pending) continue;
    const std::span<const int32_t> own = TokensOf(id);
    const auto differ = std::mismatch(own.begin(), own.end(), tokens.begin(), tokens.end()).first;
    const auto shared = static_cast<int32_t>(differ - own.begin());
    if (shared > best.tokens) best = {id, shared};
  }
  return best;
}

void PrefixIndex::Insert(int32_t parent, int32_t block, std::span<const int32_t> tokens,
                         bool pending) {
  Node& node = NodeOf(block);
  const auto filled = static_cast<int32_t>(tokens.size());
  ENGINE_CHECK(node.parent < 0) << "block " << block << " is a node already";
  ENGINE_CHECK(parent >= blocks_ || Contains(parent)) << "block " << block << " under " << parent;
  ENGINE_CHECK(filled > 0 && filled <= block_size_) << filled << " tokens";
  std::copy(tokens.begin(), tokens.end(), tokens_.begin() + int64_t{block} * block_size_);
  node = Node();
  node.filled = filled;
  node.pending = pending;
  Link(parent, block);
  if (filled == block_size_) AddToBucket(block);
}

void PrefixIndex::MarkComputed(int32_t block) { NodeOf(block).pending = false; }

void PrefixIndex::Extend(int32_t block, std::span<const int32_t> tokens) {
  Node& node = NodeOf(block);
  const auto filled = static_cast<int32_t>(tokens.size());
  ENGINE_CHECK(Contains(block) && !node.pending && node.filled < filled && filled <= block_size_)
      << "block " << block << " of " << node.filled << " tokens to " << filled;
  std::copy(tokens.begin(), tokens.end(), tokens_.begin() + int64_t{block} * block_size_);
  node.filled = filled;
  if (filled == block_size_) AddToBucket(block);
}

void PrefixIndex::Remove(int32_t block) {
  Node& node = NodeOf(block);
  ENGINE_CHECK(Contains(block) && node.first_child < 0) << "block " << block;
  if (node.idle) {
    HeapRemove(block);
    --idle_;
  }
  if (node.filled == block_size_) RemoveFromBucket(block);
  Unlink(block);
  node = Node();
}

void PrefixIndex::SetIdle(int32_t block) {
  Node& node = NodeOf(block);
  ENGINE_CHECK(Contains(block) && !node.idle && !node.pending) << "block " << block;
  node.idle = true;
  node.last_use = ++uses_;
  ++idle_;
  if (node.first_child < 0) HeapAdd(block);
}

void PrefixIndex::SetBusy(int32_t block) {
  Node& node = NodeOf(block);
  ENGINE_CHECK(Contains(block)) << "block " << block;
  if (node.reuses < kReusesMax) ++node.reuses;
  if (!node.idle) return;
  if (node.first_child < 0) HeapRemove(block);
  node.idle = false;
  --idle_;
}

int32_t PrefixIndex::Evict() {
  if (heap_.empty()) return -1;
  const int32_t block = heap_.front();
  Remove(block);
  return block;
}

void PrefixIndex::Link(int32_t parent, int32_t block) {
  Node& node = NodeOf(block);
  Node& above = NodeOf(parent);
  // A leaf no more. (A child of an idle node is idle, but it becomes so only after its parent's
  // first child is linked.)
  if (above.idle && above.first_child < 0) HeapRemove(parent);
  node.parent = parent;
  node.next_sibling = above.first_child;
  node.previous_sibling = -1;
  if (above.first_child >= 0) NodeOf(above.first_child).previous_sibling = block;
  above.first_child = block;
}

void PrefixIndex::Unlink(int32_t block) {
  const Node& node = NodeOf(block);
  Node& above = NodeOf(node.parent);
  if (node.previous_sibling >= 0) {
    NodeOf(node.previous_sibling).next_sibling = node.next_sibling;
  } else {
    above.first_child = node.next_sibling;
  }
  if (node.next_sibling >= 0) NodeOf(node.next_sibling).previous_sibling = node.previous_sibling;
  if (above.first_child >= 0) return;
  if (node.parent < blocks_) {
    if (above.idle) HeapAdd(node.parent);
    return;
  }
  std::string& salt = salts_[static_cast<size_t>(node.parent - blocks_)];
  root_of_.erase(salt);
  salt.clear();
  free_roots_.push_back(node.parent);
}

void PrefixIndex::AddToBucket(int32_t block) {
  Node& node = NodeOf(block);
  node.hash = Hash(node.parent, TokensOf(block));
  int32_t& first = buckets_[node.hash & (buckets_.size() - 1)];
  node.next_in_bucket = first;
  first = block;
}

void PrefixIndex::RemoveFromBucket(int32_t block) {
  const Node& node = NodeOf(block);
  int32_t* link = &buckets_[node.hash & (buckets_.size() - 1)];
  while (*link != block) link = &NodeOf(*link).next_in_bucket;
  *link = node.next_in_bucket;
}

}  // namespace sluice::engine
