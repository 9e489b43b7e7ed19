// PrefixIndex: the order in which idle leaves are given up (a binary heap that knows each node's
// place), and the check of the whole.
#include <algorithm>

#include "engine/base/check.h"
#include "engine/kv/prefix_index.h"

namespace sluice::engine {

uint64_t PrefixIndex::Worth(int32_t block) const {
  const Node& node = NodeOf(block);
  return node.last_use + node.reuses * (static_cast<uint64_t>(blocks_) / 4);
}

// Of equal worth the lower block goes first, so that the order never depends on the heap's history.
bool PrefixIndex::Less(int32_t a, int32_t b) const {
  const uint64_t worth_a = Worth(a), worth_b = Worth(b);
  return worth_a != worth_b ? worth_a < worth_b : a < b;
}

void PrefixIndex::HeapPlace(size_t place, int32_t block) {
  heap_[place] = block;
  NodeOf(block).heap_place = static_cast<int32_t>(place);
}

void PrefixIndex::HeapUp(size_t place) {
  const int32_t block = heap_[place];
  while (place > 0) {
    const size_t above = (place - 1) / 2;
    if (!Less(block, heap_[above])) break;
    HeapPlace(place, heap_[above]);
    place = above;
  }
  HeapPlace(place, block);
}

void PrefixIndex::HeapDown(size_t place) {
  const int32_t block = heap_[place];
  for (;;) {
    size_t below = 2 * place + 1;
    if (below >= heap_.size()) break;
    if (below + 1 < heap_.size() && Less(heap_[below + 1], heap_[below])) ++below;
    if (!Less(heap_[below], block)) break;
    HeapPlace(place, heap_[below]);
    place = below;
  }
  HeapPlace(place, block);
}

void PrefixIndex::HeapAdd(int32_t block) {
  heap_.push_back(block);
  HeapUp(heap_.size() - 1);
}

void PrefixIndex::HeapRemove(int32_t block) {
  const auto place = static_cast<size_t>(NodeOf(block).heap_place);
  ENGINE_CHECK(place < heap_.size() && heap_[place] == block) << "block " << block;
  NodeOf(block).heap_place = -1;
  const int32_t last = heap_.back();
  heap_.pop_back();
  if (last == block) return;
  heap_[place] = last;
  HeapUp(place);
  HeapDown(static_cast<size_t>(NodeOf(last).heap_place));
}

std::string PrefixIndex::Check() const {
  const auto bad = [](int32_t block, const char* what) {
    return "node " + std::to_string(block) + " " + what;
  };
  int32_t idle = 0, leaves = 0;
  for (int32_t block = 0; block < blocks_; ++block) {
    const Node& node = NodeOf(block);
    if (node.parent < 0) {
      if (node.first_child >= 0) return bad(block, "has children but is not in the index");
      continue;
    }
    if (node.idle) ++idle;
    const bool leaf = node.idle && node.first_child < 0;
    if (leaf != (node.heap_place >= 0)) return bad(block, "is in the heap wrongly, or not");
    if (leaf) ++leaves;
    if (node.idle && node.pending) return bad(block, "is pending and idle");
    if (node.parent < blocks_) {
      const Node& above = NodeOf(node.parent);
      if (above.parent < 0) return bad(block, "has lost its parent");
      if (above.idle && !node.idle) return bad(block, "is in use under an idle node");
      if (above.pending && !node.pending) return bad(block, "is computed under a pending node");
    }
    if (node.filled == block_size_ && Find(node.parent, TokensOf(block)) != block)
      return bad(block, "is not found by its tokens");
    if (node.filled < block_size_ && node.first_child >= 0)
      return bad(block, "has children but is not full");
  }
  if (idle != idle_) return "idle nodes are miscounted";
  if (leaves != static_cast<int32_t>(heap_.size())) return "the heap has nodes that are no leaves";
  for (size_t place = 1; place < heap_.size(); ++place)
    if (Less(heap_[place], heap_[(place - 1) / 2])) return bad(heap_[place], "is out of order");
  return "";
}

}  // namespace sluice::engine
