#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sluice::engine {

// Which KV blocks hold which tokens, so that sequences that begin alike share them: a tree whose
// nodes are blocks, each named by its parent and its tokens (prefix caching; compare Zheng et al.
// 2024, "SGLang", and Kwon et al. 2023, "PagedAttention"). A node of block_size tokens is found by
// a hash of (parent, tokens), and the tokens are compared: a collision is never taken for a hit. A
// node of fewer tokens, the last one of some sequence, is found among its parent's children.
//
// Roots are salts: whatever else keys and values depend on, or must be kept apart by (adapter,
// tenant). Equal tokens under different salts never meet.
//
// A node is *pending* from when its computation is planned until it is done. It is *idle* while no
// sequence holds it; idle nodes are given up from the leaves, those first whose last use lies
// longest back, where each use by another sequence counts for a quarter of the pool's turnover, up
// to two turnovers: one pass over much text does not push out a prompt that many share.
//
// Values in, values out; nothing is allocated after construction but for new salts. Engine thread
// only.
class PrefixIndex {
 public:
  PrefixIndex(int32_t blocks, int32_t block_size);

  // The root of a salt, -1 when it has no nodes. MakeRoot is followed by an Insert below it; a root
  // lives as long as it has nodes.
  int32_t FindRoot(std::string_view salt) const;
  int32_t MakeRoot(std::string_view salt);

  // The computed or pending node of exactly these block_size tokens below `parent` (a root or a
  // block), or -1.
  int32_t Find(int32_t parent, std::span<const int32_t> tokens) const;
  // The computed node below `parent` that shares the most leading tokens with `tokens`, and how
  // many; {-1, 0} when none shares any. Looks at the kChildrenSeen newest children.
  struct Partial {
    int32_t block = -1;
    int32_t tokens = 0;
  };
  Partial FindPartial(int32_t parent, std::span<const int32_t> tokens) const;

  // `block`, which is not in the index, becomes a busy node of 1..block_size tokens. Of block_size
  // tokens there must be no equal one yet.
  void Insert(int32_t parent, int32_t block, std::span<const int32_t> tokens, bool pending);
  void MarkComputed(int32_t block);
  // A computed node of fewer tokens gets more of them. Of block_size tokens there must be no equal
  // one yet.
  void Extend(int32_t block, std::span<const int32_t> tokens);
  // Takes a node without children out.
  void Remove(int32_t block);

  // Nobody holds the node any more; one more sequence makes use of it.
  void SetIdle(int32_t block);
  void SetBusy(int32_t block);

  // Takes out the idle leaf that is worth least and returns its block, -1 when nothing is idle.
  int32_t Evict();

  bool Contains(int32_t block) const { return NodeOf(block).parent >= 0; }
  bool IsPending(int32_t block) const { return NodeOf(block).pending; }
  bool HasChildren(int32_t block) const { return NodeOf(block).first_child >= 0; }
  bool IsIdle(int32_t block) const { return NodeOf(block).idle; }
  int32_t FilledTokens(int32_t block) const { return NodeOf(block).filled; }
  int32_t idle() const { return idle_; }

  // Empty, or what is wrong. Linear: for tests.
  std::string Check() const;

  static constexpr int32_t kChildrenSeen = 32;

 private:
  // Blocks are nodes 0 .. blocks-1, roots the nodes from there on.
  struct Node {
    int32_t parent = -1;  // -1: not in the index
    int32_t first_child = -1;
    int32_t next_sibling = -1;
    int32_t previous_sibling = -1;
    int32_t next_in_bucket = -1;
    uint32_t hash = 0;
    int32_t filled = 0;  // tokens
    bool pending = false;
    bool idle = false;
    uint8_t reuses = 0;
    uint64_t last_use = 0;
    int32_t heap_place = -1;
  };
  const Node& NodeOf(int32_t id) const { return nodes_[static_cast<size_t>(id)]; }
  Node& NodeOf(int32_t id) { return nodes_[static_cast<size_t>(id)]; }
  std::span<const int32_t> TokensOf(int32_t block) const;
  uint32_t Hash(int32_t parent, std::span<const int32_t> tokens) const;
  void Link(int32_t parent, int32_t block);
  void Unlink(int32_t block);
  void AddToBucket(int32_t block);
  void RemoveFromBucket(int32_t block);

  // The heap of idle leaves, least worth first.
  uint64_t Worth(int32_t block) const;
  bool Less(int32_t a, int32_t b) const;
  void HeapAdd(int32_t block);
  void HeapRemove(int32_t block);
  void HeapPlace(size_t place, int32_t block);
  void HeapUp(size_t place);
  void HeapDown(size_t place);

  const int32_t blocks_;
  const int32_t block_size_;
  std::vector<Node> nodes_;
  std::vector<int32_t> tokens_;   // [blocks, block_size]
  std::vector<int32_t> buckets_;  // first node of each
  std::vector<int32_t> heap_;
  std::vector<std::string> salts_;  // of the roots
  std::vector<int32_t> free_roots_;
  std::unordered_map<std::string, int32_t> root_of_;
  int32_t idle_ = 0;
  uint64_t uses_ = 0;
};

}  // namespace sluice::engine
