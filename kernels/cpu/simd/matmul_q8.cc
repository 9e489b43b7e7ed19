// Integer products: weights of 4 or 8 bits times int8 activations, by blocks of 32 columns.
//
//   out[t][n] = sum over blocks b, ascending, of
//       d[n][b] * scale[t][b] * (integer dot product)
//       (+ d[n][b] * fine_scale[t][b] * (integer dot product with fine)) (+ m[n][b] * sum[t][b])
//
// One vector lane is one weight row, so nothing is ever summed across lanes, and each result sees
// the same float operations in the same order whatever the number of columns: acc = fma(dot,
// d * scale, acc), for refined blocks the same of fine, then acc = fma(m, sum, acc).
//
// A tile is one panel of kLanes rows times C columns; each block's quants are unpacked once for all
// C. Cost for one block and column: AVX-512 VNNI 8 vpdpbusd (256 multiply-adds each) and 3 or 4
// float instructions; AVX2 4 bits: 8 vpmaddubsw, 7 vpaddw, vpmaddwd, 3 or 4 float; nearly as much
// again for the blocks that are refined, a fifth of the default model's. With one column the bound
// is reading the weights.

#include "kernels/cpu/simd/matmul_q8.h"
#include "kernels/cpu/simd/kernel_table.h"
#include "kernels/cpu/simd/vec.h"

namespace sluice::kernels::SLUICE_SIMD {
namespace {

constexpr int64_t kQuantBytes4 = 16 * kLanes;  // of one block
constexpr int64_t kQuantBytes8 = 32 * kLanes;

#if defined(__AVX512F__)
constexpr int kInTurns = 4;
#else
constexpr int kInTurns = 1;
#endif

struct Tile {
  const std::byte* quants;
  const uint16_t* scales;  // [blocks][kLanes]
  const uint16_t* minima;
  int64_t blocks;
  const std::byte* in;  // [blocks] ColumnBlock
};

// A block of C columns side by side, so that all of it is at fixed distances from one pointer. Of
// one column it is a Q8Block.
template <int C>
struct ColumnBlock {
  int8_t q[C][32];
  int8_t fine[C][32];
  Q8Part of_q[C], of_fine[C];
  float sum[C];
  int32_t refined[C];
};
static_assert(sizeof(ColumnBlock<1>) == sizeof(Q8Block));

template <int C>
SLUICE_INLINE const ColumnBlock<C>& BlockOf(const Tile& tile, int64_t block) {
  return reinterpret_cast<const ColumnBlock<C>*>(tile.in)[block];
}

template <int C>
const std::byte* GatherColumns(const MatMulTask& task, int64_t column) {
  const std::byte* in = task.in + column * task.in_stride;
  if (C == 1) return in;
  auto* out = reinterpret_cast<ColumnBlock<C>*>(task.scratch);
  if (task.gathered) return reinterpret_cast<const std::byte*>(out);
  for (int c = 0; c < C; ++c) {
    const auto* blocks = reinterpret_cast<const Q8Block*>(in + c * task.in_stride);
    for (int64_t b = 0; b < task.cols / 32; ++b) {
      __builtin_memcpy(out[b].q[c], blocks[b].q, 32);
      __builtin_memcpy(out[b].fine[c], blocks[b].fine, 32);
      out[b].of_q[c] = blocks[b].of_q, out[b].of_fine[c] = blocks[b].of_fine;
      out[b].sum[c] = blocks[b].sum, out[b].refined[c] = blocks[b].refined;
    }
  }
  return reinterpret_cast<const std::byte*>(out);
}

#if defined(__AVX512F__)

SLUICE_INLINE I32 LoadBytes(const std::byte* p) { return _mm512_loadu_si512(p); }
SLUICE_INLINE I32 ShiftNibbles(I32 x) { return _mm512_srli_epi16(x, 4); }
SLUICE_INLINE I32 Nibbles() { return _mm512_set1_epi8(0x0F); }

// dots += the products of 4 unsigned weights a lane with 4 activations. The instruction can read
// and repeat the activations itself; g++ 12 makes it two, of which fewer fit into the scheduler.
SLUICE_INLINE void AddDot(I32* dots, I32 w, const int8_t* a) {
  struct Four {
    int8_t bytes[4];
  };
  asm("vpdpbusd %2%{1to16%}, %1, %0"
      : "+v"(*dots)
      : "v"(w), "m"(*reinterpret_cast<const Four*>(a)));
}

// Dot products of G columns with 8 groups of 4 unsigned weights a lane. The columns take turns:
// each instruction waits for the one before it in its column, and the scheduler sees only so far.
template <int G>
SLUICE_INLINE void DotColumns(const I32 (&w)[8], const int8_t (*a)[32], I32* dots) {
#pragma GCC unroll 8
  for (int g = 0; g < 8; ++g) {
#pragma GCC unroll 4
    for (int c = 0; c < G; ++c) {
      AddDot(&dots[c], w[g], a[c] + 4 * g);
    }
  }
}

#else

SLUICE_INLINE I32 LoadBytes(const std::byte* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
SLUICE_INLINE I32 ShiftNibbles(I32 x) { return _mm256_srli_epi16(x, 4); }
SLUICE_INLINE I32 Nibbles() { return _mm256_set1_epi8(0x0F); }
SLUICE_INLINE int32_t FourBytes(const int8_t* q, int group) {
  int32_t bytes;
  __builtin_memcpy(&bytes, q + 4 * group, 4);
  return bytes;
}

// Dot products of G columns with 8 groups of 4 weights of 4 bits a lane. The sum of 8 pairs of
// products is at most 8 * 2 * 15 * 127 = 30480 and fits into 16 bits.
template <int G>
SLUICE_INLINE void DotColumns(const I32 (&w)[8], const int8_t (*a)[32], I32* dots) {
#pragma GCC unroll 4
  for (int c = 0; c < G; ++c) {
    I32 pairs = _mm256_maddubs_epi16(w[0], Set1I(FourBytes(a[c], 0)));
#pragma GCC unroll 8
    for (int g = 1; g < 8; ++g) {
      pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(w[g], Set1I(FourBytes(a[c], g))));
    }
    dots[c] = AddI(dots[c], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
}

// Signed weights: |w| times the activation with the sign of w; a pair of products is at most
// 2 * 128 * 127 = 32512.
template <int C>
SLUICE_INLINE void DotBytes(const std::byte* quants, const int8_t (*a)[32], I32* dots) {
#pragma GCC unroll 8
  for (int c = 0; c < C; ++c) dots[c] = Set1I(0);
#pragma GCC unroll 8
  for (int g = 0; g < 8; ++g) {
    const I32 w = LoadBytes(quants + 32 * g);
    const I32 magnitude = _mm256_abs_epi8(w);
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) {
      const I32 signed_a = _mm256_sign_epi8(Set1I(FourBytes(a[c], g)), w);
      const I32 pairs = _mm256_maddubs_epi16(magnitude, signed_a);
      dots[c] = AddI(dots[c], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    }
  }
}

#endif

SLUICE_INLINE void UnpackNibbles(const std::byte* quants, I32 (&w)[8]) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const I32 packed = LoadBytes(quants + 4 * kLanes * i);
    w[i] = AndI(packed, Nibbles());
    w[4 + i] = AndI(ShiftNibbles(packed), Nibbles());
  }
}

// acc + float(dot) * d * scale.
SLUICE_INLINE F32 AddScaled(F32 acc, I32 dot, F32 d, float scale) {
  return Fma(ToFloat(dot), Mul(d, Set1(scale)), acc);
}

// Calls body.Run<G>(first column) for groups of kInTurns columns, and for what is left.
template <int C, int kFirst = 0, typename Body>
SLUICE_INLINE void ForGroups(const Body& body) {
  if constexpr (kFirst < C) {
    constexpr int kGroup = C - kFirst < kInTurns ? C - kFirst : kInTurns;
    body.template Run<kGroup>(kFirst);
    ForGroups<C, kFirst + kGroup>(body);
  }
}

enum class Offset { kNone, kMinus8, kMinus128 };

// acc += the products of G columns from `first` on with a block's weights, unpacked in w.
template <int C, Offset kOffset>
struct ColumnGroup {
  const I32 (&w)[8];
  const ColumnBlock<C>& a;
  F32 d;
  F32 (&acc)[C];

  template <int G>
  __attribute__((always_inline)) void Add(int first, const int8_t (*q)[32],
                                          const Q8Part* part) const {
    I32 dots[G];
#pragma GCC unroll 4
    for (int c = 0; c < G; ++c) {
      dots[c] = Set1I(kOffset == Offset::kMinus8     ? part[c].minus8
                      : kOffset == Offset::kMinus128 ? part[c].minus128
                                                     : 0);
    }
    DotColumns<G>(w, q, dots);
#pragma GCC unroll 4
    for (int c = 0; c < G; ++c) {
      acc[first + c] = AddScaled(acc[first + c], dots[c], d, part[c].scale);
    }
  }

  template <int G>
  __attribute__((always_inline)) void Run(int first) const {
    Add<G>(first, a.q + first, a.of_q + first);
    // Which blocks are refined is the same for all panels of a tile: the branches are foreseen.
#pragma GCC unroll 4
    for (int c = first; c < first + G; ++c) {
      if (a.refined[c] != 0) Add<1>(c, a.fine + c, a.of_fine + c);
    }
  }
};

template <int C, bool kWithMinima>
struct Nibbles4 {
  static constexpr int64_t kQuantBytes = kQuantBytes4;
  static constexpr Offset kOffset = kWithMinima ? Offset::kNone : Offset::kMinus8;
  SLUICE_INLINE void Block(const Tile& tile, int64_t b, F32 (&acc)[C]) {
    I32 w[8];
    UnpackNibbles(tile.quants + b * kQuantBytes, w);
    const F32 d = LoadHalf(tile.scales + b * kLanes);
    const ColumnBlock<C>& a = BlockOf<C>(tile, b);
    ForGroups<C>(ColumnGroup<C, kOffset>{w, a, d, acc});
    if (!kWithMinima) return;
    const F32 m = LoadHalf(tile.minima + b * kLanes);
#pragma GCC unroll 16
    for (int c = 0; c < C; ++c) acc[c] = Fma(m, Set1(a.sum[c]), acc[c]);
  }
};
template <int C>
using Q4_1 = Nibbles4<C, true>;
template <int C>
using Q4_0 = Nibbles4<C, false>;

#if defined(__AVX512F__)

template <int C>
struct Q8_0 {
  static constexpr int64_t kQuantBytes = kQuantBytes8;
  SLUICE_INLINE void Block(const Tile& tile, int64_t b, F32 (&acc)[C]) {
    I32 w[8];
#pragma GCC unroll 8
    for (int g = 0; g < 8; ++g) w[g] = LoadBytes(tile.quants + b * kQuantBytes + 64 * g);
    const F32 d = LoadHalf(tile.scales + b * kLanes);
    ForGroups<C>(ColumnGroup<C, Offset::kMinus128>{w, BlockOf<C>(tile, b), d, acc});
  }
};

#else

template <int C>
struct Q8_0 {
  static constexpr int64_t kQuantBytes = kQuantBytes8;
  SLUICE_INLINE void Block(const Tile& tile, int64_t b, F32 (&acc)[C]) {
    const ColumnBlock<C>& a = BlockOf<C>(tile, b);
    const std::byte* quants = tile.quants + b * kQuantBytes;
    const F32 d = LoadHalf(tile.scales + b * kLanes);
    I32 dots[C];
    DotBytes<C>(quants, a.q, dots);
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) acc[c] = AddScaled(acc[c], dots[c], d, a.of_q[c].scale);
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) {
      if (a.refined[c] == 0) continue;
      DotBytes<1>(quants, a.fine + c, dots);
      acc[c] = AddScaled(acc[c], dots[0], d, a.of_fine[c].scale);
    }
  }
};

#endif

// With few columns the time goes into waiting for weights: they are asked for well ahead.
constexpr int64_t kPrefetchBytes = 2048;

SLUICE_INLINE void Prefetch(const std::byte* block, int64_t bytes) {
#pragma GCC unroll 8
  for (int64_t i = 0; i < bytes; i += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(block + kPrefetchBytes + i), _MM_HINT_T0);
  }
}

template <template <int> class Format, int C>
SLUICE_INLINE void RunTile(const MatMulTask& task, const std::byte* in, int64_t panel, float* out) {
  const int64_t blocks = task.cols / 32;
  Tile tile;
  tile.quants = task.weight + panel * task.panel_bytes;
  tile.scales = reinterpret_cast<const uint16_t*>(tile.quants + blocks * Format<C>::kQuantBytes);
  tile.minima = tile.scales + blocks * kLanes;
  tile.blocks = blocks;
  tile.in = in;

  F32 acc[C];
#pragma GCC unroll 16
  for (int c = 0; c < C; ++c) acc[c] = Zero();
  for (int64_t b = 0; b < blocks; ++b) {
    Prefetch(tile.quants + b * Format<C>::kQuantBytes, Format<C>::kQuantBytes);
    Format<C>::Block(tile, b, acc);
  }

  const int64_t row = panel * kLanes;
  const int n = task.rows - row < kLanes ? static_cast<int>(task.rows - row) : kLanes;
  const F32 bias = task.bias != nullptr ? LoadN(task.bias + row, n) : Zero();
#pragma GCC unroll 16
  for (int c = 0; c < C; ++c) {
    const F32 result = task.bias != nullptr ? Add(acc[c], bias) : acc[c];
    StoreN(out + c * task.out_stride + row, result, n);
  }
}

// C columns by all panels of the task.
template <template <int> class Format, int C>
void RunColumns(const MatMulTask& task, int64_t column) {
  const std::byte* in = GatherColumns<C>(task, column);
  float* out = task.out + column * task.out_stride;
  for (int64_t panel = task.panel_begin; panel < task.panel_end; ++panel) {
    RunTile<Format, C>(task, in, panel, out);
  }
}

template <template <int> class Format>
void Run(const MatMulTask& task) {
  using Function = void (*)(const MatMulTask&, int64_t column);
  static constexpr Function kFunctions[] = {
    RunColumns<Format, 1>,
    RunColumns<Format, 2>,
    RunColumns<Format, 3>,
    RunColumns<Format, 4>,
#if defined(__AVX512F__)
    RunColumns<Format, 5>,
    RunColumns<Format, 6>,
    RunColumns<Format, 7>,
    RunColumns<Format, 8>,
    RunColumns<Format, 9>,
    RunColumns<Format, 10>,
    RunColumns<Format, 11>,
    RunColumns<Format, 12>,
#endif
  };
  static_assert(sizeof(kFunctions) / sizeof(kFunctions[0]) == kQ8Columns);
  // As few tiles as possible, of sizes as equal as possible.
  const int64_t tiles = (task.columns + kQ8Columns - 1) / kQ8Columns;
  int64_t column = 0;
  for (int64_t i = 0; i < tiles; ++i) {
    const int64_t size = (task.columns - column) / (tiles - i);
    kFunctions[size - 1](task, column);
    column += size;
  }
}

}  // namespace

void MatMulQ8_0(const MatMulTask& task) { Run<Q8_0>(task); }
void MatMulQ4_0(const MatMulTask& task) { Run<Q4_0>(task); }
void MatMulQ4_1(const MatMulTask& task) { Run<Q4_1>(task); }

}  // namespace sluice::kernels::SLUICE_SIMD
