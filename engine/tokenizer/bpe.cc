#include "engine/tokenizer/bpe.h"

#include <algorithm>
#include <array>
#include <functional>
#include <random>

namespace sluice::engine {
namespace {

uint64_t ProcessSeed() {
  static const uint64_t seed = [] {
    std::random_device device;
    return (static_cast<uint64_t>(device()) << 32) | device();
  }();
  return seed;
}

uint64_t PairOf(int32_t left, int32_t right) {
  return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
}

// Up to this many symbols a scan for the lowest rank is quicker than a heap.
constexpr size_t kShort = 40;

void MergeShort(const MergeTable& merges, std::span<const int32_t> symbols,
                std::vector<int32_t>* out) {
  std::array<int32_t, kShort> ids;
  std::array<MergeTable::Merge, kShort> next;  // of ids[i] and ids[i + 1]
  size_t n = symbols.size();
  std::copy(symbols.begin(), symbols.end(), ids.begin());
  for (size_t i = 0; i + 1 < n; ++i) next[i] = merges.Find(ids[i], ids[i + 1]);
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; ++i) {
      if (next[i].rank < next[best].rank) best = i;
    }
    if (next[best].rank == MergeTable::kNever) break;
    ids[best] = next[best].result;
    std::copy(ids.begin() + best + 2, ids.begin() + n, ids.begin() + best + 1);
    if (best + 2 < n)
      std::copy(next.begin() + best + 2, next.begin() + n - 1, next.begin() + best + 1);
    --n;
    if (best > 0) next[best - 1] = merges.Find(ids[best - 1], ids[best]);
    if (best + 1 < n) next[best] = merges.Find(ids[best], ids[best + 1]);
  }
  out->insert(out->end(), ids.begin(), ids.begin() + n);
}

// The symbols as a doubly linked list in an array, and a heap of candidate merges in which those
// that other merges have overtaken are left to be recognised when they surface.
class LongMerger {
 public:
  LongMerger(const MergeTable& merges, std::span<const int32_t> symbols) : merges_(merges) {
    const auto n = static_cast<uint32_t>(symbols.size());
    nodes_.resize(n);
    heap_.reserve(n);
    for (uint32_t i = 0; i < n; ++i) {
      nodes_[i] = {.id = symbols[i], .previous = i - 1, .next = i + 1, .merge = {}};
    }
    nodes_[0].previous = kNone;
    nodes_[n - 1].next = kNone;
    for (uint32_t i = 0; i + 1 < n; ++i) {
      nodes_[i].merge = merges.Find(symbols[i], symbols[i + 1]);
      if (nodes_[i].merge.rank != MergeTable::kNever) heap_.push_back(Key(nodes_[i].merge.rank, i));
    }
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
  }

  void Run(std::vector<int32_t>* out) {
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      const uint64_t key = heap_.back();
      heap_.pop_back();
      const auto at = static_cast<uint32_t>(key);
      // A symbol only grows, so the rank of the pair it begins never comes back: an equal rank is
      // the same pair. A symbol that was taken into its left neighbour has no rank at all.
      if (nodes_[at].merge.rank == static_cast<uint32_t>(key >> 32)) Apply(at);
    }
    for (uint32_t i = 0; i != kNone; i = nodes_[i].next) out->push_back(nodes_[i].id);
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Node {
    int32_t id;
    uint32_t previous;
    uint32_t next;
    MergeTable::Merge merge;  // with the next symbol
  };

  // Orders by rank, then by place.
  static uint64_t Key(uint32_t rank, uint32_t at) {
    return (static_cast<uint64_t>(rank) << 32) | at;
  }

  void Apply(uint32_t at) {
    Node& node = nodes_[at];
    Node& taken = nodes_[node.next];
    node.id = node.merge.result;
    node.next = taken.next;
    taken.merge = {};
    if (node.next != kNone) nodes_[node.next].previous = at;
    Look(at);
    if (node.previous != kNone) Look(node.previous);
  }

  void Look(uint32_t at) {
    Node& node = nodes_[at];
    node.merge = {};
    if (node.next == kNone) return;
    node.merge = merges_.Find(node.id, nodes_[node.next].id);
    if (node.merge.rank == MergeTable::kNever) return;
    heap_.push_back(Key(node.merge.rank, at));
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }

  const MergeTable& merges_;
  std::vector<Node> nodes_;
  std::vector<uint64_t> heap_;
};

}  // namespace

MergeTable::MergeTable(size_t count) : seed_(ProcessSeed()) {
  size_t slots = 2;
  while (slots < 2 * count) slots *= 2;
  slots_.resize(slots);
}

size_t MergeTable::Home(uint64_t pair) const {
  const auto product =
      static_cast<unsigned __int128>(pair ^ seed_) * static_cast<uint64_t>(0x9E3779B97F4A7C15);
  return static_cast<size_t>(static_cast<uint64_t>(product >> 64) ^
                             static_cast<uint64_t>(product)) &
         (slots_.size() - 1);
}

void MergeTable::Add(int32_t left, int32_t right, Merge merge) {
  const uint64_t pair = PairOf(left, right);
  size_t at = Home(pair);
  while (slots_[at].pair != kEmpty) {
    if (slots_[at].pair == pair) return;
    at = (at + 1) & (slots_.size() - 1);
  }
  slots_[at] = {pair, merge};
}

MergeTable::Merge MergeTable::Find(int32_t left, int32_t right) const {
  const uint64_t pair = PairOf(left, right);
  for (size_t at = Home(pair);; at = (at + 1) & (slots_.size() - 1)) {
    if (slots_[at].pair == pair) return slots_[at].merge;
    if (slots_[at].pair == kEmpty) return {};
  }
}

void MergeSymbols(const MergeTable& merges, std::span<const int32_t> symbols,
                  std::vector<int32_t>* out) {
  if (symbols.size() <= kShort) {
    MergeShort(merges, symbols, out);
  } else {
    LongMerger(merges, symbols).Run(out);
  }
}

}  // namespace sluice::engine
