#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice::engine {

// Which two neighbouring tokens become one, and in what order of preference. A hash table with a
// seed of its own per process, so that a model file cannot be made to fill one chain of it.
// Immutable once filled.
class MergeTable {
 public:
  static constexpr uint32_t kNever = UINT32_MAX;
  struct Merge {
    uint32_t rank = kNever;  // lower merges first; kNever: the two do not merge
    int32_t result = -1;
  };

  MergeTable() : MergeTable(0) {}
  // For up to `count` merges.
  explicit MergeTable(size_t count);

  // The first merge of a pair stands. Ranks must differ; ids must not be negative.
  void Add(int32_t left, int32_t right, Merge merge);
  Merge Find(int32_t left, int32_t right) const;

 private:
  struct Slot {
    uint64_t pair = kEmpty;
    Merge merge;
  };
  static constexpr uint64_t kEmpty = UINT64_MAX;

  size_t Home(uint64_t pair) const;

  std::vector<Slot> slots_;  // a power of two, at most half full; linear probing
  uint64_t seed_;
};

// Byte-pair encoding (Sennrich et al. 2016): as long as any two neighbours merge, merges those of
// lowest rank, the leftmost first. Appends the ids that remain to `out`. `symbols` holds under 2^31
// ids. O(n log n) time and O(n) memory for n symbols.
void MergeSymbols(const MergeTable& merges, std::span<const int32_t> symbols,
                  std::vector<int32_t>* out);

}  // namespace sluice::engine
