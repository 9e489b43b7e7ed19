// Attention of a few query rows over one partition of the context: scores, softmax, weighted sum.
//
//   score[r][p] = sum over d, ascending, of q[r][d] * key[p][d]        lanes are positions
//   out[r][d]   = sum over p, ascending, of exp(score - max) * value[p][d]    lanes are d
//
// For a row, every operation and its order depends only on positions: vectors of positions start
// at multiples of 16, and positions after the row's last one are left out. Hence rows of one tile
// may end at different positions, and a row gets the same bits in a prompt, a chunk of one, or
// alone; and what lies beyond its last position, be it NaN, never touches it.
//
// Both products read each vector of keys or values once for all rows: 2 * rows * head_dim fma for
// 2 * head_dim loads a position, so with 12 rows (AVX-512) the bound is the multipliers.

#include "kernels/cpu/simd/attention.h"

#include "kernels/cpu/simd/kernel_table.h"
#include "kernels/cpu/simd/vec.h"

namespace sluice::kernels::SLUICE_SIMD {
namespace {

constexpr int kStrip = 16;  // positions that lie in one block whatever its size
constexpr int kStripsMax = kPartition / kStrip;
constexpr int kAccumulators = kAttentionRows * 2;

struct HalfElements {
  using Element = uint16_t;
  SLUICE_INLINE F32 LoadRow(const uint16_t* p) { return LoadHalf(p); }
  SLUICE_INLINE F32 LoadSome(const uint16_t* p, int n) { return LoadHalfN(p, n); }
};
struct FloatElements {
  using Element = float;
  SLUICE_INLINE F32 LoadRow(const float* p) { return Load(p); }
  SLUICE_INLINE F32 LoadSome(const float* p, int n) { return LoadN(p, n); }
};

// Where a partition's strips are.
template <typename Element>
struct Strips {
  const Element* keys[kStripsMax];    // of the strip's first position; d is block_size further
  const Element* values[kStripsMax];  // head_dim further for each position
  int count = 0;
  int positions = 0;  // used, of all strips together
};

template <typename Element>
void FindStrips(const AttentionTask& task, Strips<Element>* strips) {
  const KvHead& kv = task.kv;
  const int64_t end = int64_t{task.last[task.rows - 1]} + 1 - task.first_position;
  strips->positions = static_cast<int>(end < kPartition ? end : kPartition);
  strips->count = (strips->positions + kStrip - 1) / kStrip;
  for (int s = 0; s < strips->count; ++s) {
    const int64_t position = task.first_position + s * kStrip;
    const int64_t offset = position % kv.block_size;
    const int64_t block = kv.block_table[position / kv.block_size];
    strips->keys[s] = reinterpret_cast<const Element*>(kv.keys + block * kv.block_bytes) + offset;
    strips->values[s] =
        reinterpret_cast<const Element*>(kv.values + block * kv.block_bytes) + offset * kv.head_dim;
  }
}

// Scores of R rows by V vectors of positions.
template <class Format, int R, int V>
SLUICE_INLINE void ScoreTile(const AttentionTask& task,
                             const typename Format::Element* const (&keys)[V], float* scores) {
  const int64_t head_dim = task.kv.head_dim, step = task.kv.block_size;
  F32 acc[R][V];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) acc[r][v] = Zero();
  }
  for (int64_t d = 0; d < head_dim; ++d) {
    F32 k[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) k[v] = Format::LoadRow(keys[v] + d * step);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const F32 x = Set1(task.q[d * R + r]);
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) acc[r][v] = Fma(k[v], x, acc[r][v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) Store(scores + r * kPartition + v * kLanes, acc[r][v]);
  }
}

// Vectors of one kind side by side for R rows.
template <int R>
constexpr int VectorsFor() {
  return kAccumulators / R >= 4 ? 4 : kAccumulators / R >= 2 ? 2 : 1;
}

template <class Format, int R>
SLUICE_INLINE void Scores(const AttentionTask& task,
                          const Strips<typename Format::Element>& strips) {
  constexpr int kInStrip = kStrip / kLanes;
  constexpr int kVectors = VectorsFor<R>() < kInStrip ? kInStrip : VectorsFor<R>();
  const int vectors = strips.count * kInStrip;
  float* scores = task.scores;
  int v = 0;
  const typename Format::Element* keys[kVectors];
  for (; v + kVectors <= vectors; v += kVectors) {
#pragma GCC unroll 8
    for (int i = 0; i < kVectors; ++i) {
      keys[i] = strips.keys[(v + i) / kInStrip] + (v + i) % kInStrip * kLanes;
    }
    ScoreTile<Format, R, kVectors>(task, keys, scores + v * kLanes);
  }
  const typename Format::Element* rest[kInStrip];
  for (; v < vectors; v += kInStrip) {
#pragma GCC unroll 2
    for (int i = 0; i < kInStrip; ++i) rest[i] = strips.keys[v / kInStrip] + i * kLanes;
    ScoreTile<Format, R, kInStrip>(task, rest, scores + v * kLanes);
  }
}

// Scores of one row to weights exp(score - max), zero beyond its last position.
void Softmax(const AttentionTask& task, int row, int strips) {
  float* scores = task.scores + row * kPartition;
  const int64_t seen = task.last[row] + 1 - task.first_position;
  const int vectors = strips * (kStrip / kLanes);
  F32 largest = Set1(-__builtin_inff());
  for (int v = 0; v < vectors; ++v) {
    F32 x = Load(scores + v * kLanes);
    if ((v + 1) * kLanes > seen) {
      const I32 position = AddI(LaneIndex(), Set1I(v * kLanes));
      const Mask visible = LessI(position, Set1I(static_cast<int32_t>(seen)));
      x = Select(visible, x, Set1(-__builtin_inff()));
      Store(scores + v * kLanes, x);
    }
    largest = Max(x, largest);
  }
  const float most = ReduceMax(largest);
  F32 total = Zero();
  for (int v = 0; v < vectors; ++v) {
    const F32 weight = Exp(Sub(Load(scores + v * kLanes), Set1(most)));
    total = Add(total, weight);
    Store(scores + v * kLanes, weight);
  }
  task.largest[row] = most;
  task.total[row] = ReduceAdd(total);
}

// How many of `positions` lie in strip s, not counting those in strips before.
SLUICE_INLINE int Within(int positions, int s) {
  const int after = positions - s * kStrip;
  return after < kStrip ? after : kStrip;
}

// R rows by V vectors of head elements, from element d on; the last vector may be partial.
template <class Format, int R, int V>
SLUICE_INLINE void ValueTile(const AttentionTask& task, int64_t d,
                             const Strips<typename Format::Element>& strips) {
  const int64_t head_dim = task.kv.head_dim;
  const float* weights = task.scores;
  const int64_t left = head_dim - d;
  const bool whole = left >= V * kLanes;
  const int lanes = whole ? kLanes : static_cast<int>(left);  // V is 1 unless whole
  // Positions that every row sees; of those after, a row takes only its own.
  const auto seen_by_all = static_cast<int>(task.last[0] + 1 - task.first_position);
  F32 acc[R][V];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) acc[r][v] = Zero();
  }
  for (int s = 0; s < strips.count; ++s) {
    const auto* values = strips.values[s] + d;
    const int end = Within(strips.positions, s), whole_end = Within(seen_by_all, s);
    for (int p = 0; p < end; ++p) {
      F32 x[V];
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) {
        const auto* source = values + p * head_dim + v * kLanes;
        x[v] = whole ? Format::LoadRow(source) : Format::LoadSome(source, lanes);
      }
      const float* weight = weights + s * kStrip + p;
      if (p < whole_end) {
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
          for (int v = 0; v < V; ++v) {
            acc[r][v] = Fma(x[v], Set1(weight[r * kPartition]), acc[r][v]);
          }
        }
      } else {
        const int64_t position = task.first_position + s * kStrip + p;
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r) {
          if (task.last[r] < position) continue;
#pragma GCC unroll 8
          for (int v = 0; v < V; ++v) {
            acc[r][v] = Fma(x[v], Set1(weight[r * kPartition]), acc[r][v]);
          }
        }
      }
    }
  }
  float* out = task.out + d;
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) StoreN(out + r * head_dim + v * kLanes, acc[r][v], lanes);
  }
}

template <class Format, int R>
SLUICE_INLINE void Values(const AttentionTask& task,
                          const Strips<typename Format::Element>& strips) {
  constexpr int kVectors = VectorsFor<R>();
  int64_t d = 0;
  for (; d + kVectors * kLanes <= task.kv.head_dim; d += kVectors * kLanes) {
    ValueTile<Format, R, kVectors>(task, d, strips);
  }
  for (; d < task.kv.head_dim; d += kLanes) ValueTile<Format, R, 1>(task, d, strips);
}

template <class Format, int R>
void AttendRows(const AttentionTask& task) {
  Strips<typename Format::Element> strips;
  FindStrips(task, &strips);
  Scores<Format, R>(task, strips);
  for (int r = 0; r < R; ++r) Softmax(task, r, strips.count);
  Values<Format, R>(task, strips);
}

template <class Format>
void AttendAny(const AttentionTask& task) {
  using Function = void (*)(const AttentionTask&);
  static constexpr Function kFunctions[] = {
    AttendRows<Format, 1>,
    AttendRows<Format, 2>,
    AttendRows<Format, 3>,
    AttendRows<Format, 4>,
    AttendRows<Format, 5>,
    AttendRows<Format, 6>,
#if defined(__AVX512F__)
    AttendRows<Format, 7>,
    AttendRows<Format, 8>,
    AttendRows<Format, 9>,
    AttendRows<Format, 10>,
    AttendRows<Format, 11>,
    AttendRows<Format, 12>,
#endif
  };
  kFunctions[task.rows - 1](task);
}

}  // namespace

void Attend(const AttentionTask& task) {
  if (task.kv.half) {
    AttendAny<HalfElements>(task);
  } else {
    AttendAny<FloatElements>(task);
  }
}

// With the two maxima's difference, exp() scales the smaller side down.
void Merge(const MergeTask& task) {
  const F32 mine = Set1(*task.largest), theirs = Set1(task.other_largest);
  const F32 most = Max(mine, theirs);
  const F32 keep = Exp(Sub(mine, most)), take = Exp(Sub(theirs, most));
  *task.total = __builtin_fmaf(task.other_total, FirstLane(take), *task.total * FirstLane(keep));
  *task.largest = FirstLane(most);
  for (int64_t i = 0; i < task.n; i += kLanes) {
    const int lanes = task.n - i < kLanes ? static_cast<int>(task.n - i) : kLanes;
    const F32 kept = Mul(LoadN(task.out + i, lanes), keep);
    StoreN(task.out + i, Fma(LoadN(task.other_out + i, lanes), take, kept), lanes);
  }
}

}  // namespace sluice::kernels::SLUICE_SIMD
