// Integer products: weights of 4 or 8 bits times int8 activations, by blocks of 32 columns.
//
//   out[t][n] = sum over blocks b, ascending, of
//       d[n][b] * scale[t][b] * (integer dot product) (+ m[n][b] * sum[t][b])
//
// One vector lane is one weight row, so nothing is ever summed across lanes, and each result sees
// the same float operations in the same order whatever the number of columns: acc = fma(dot,
// d * scale, acc), then acc = fma(m, sum, acc).
//
// A tile is one panel of kLanes rows times C columns; each block's quants are unpacked once for all
// C. Cost for one block and column: AVX-512 VNNI 8 vpdpbusd (256 multiply-adds each) and 3 or 4
// float instructions; AVX2 4 bits: 8 vpmaddubsw, 7 vpaddw, vpmaddwd, 3 or 4 float. With one column
// the bound is reading the weights.

#include "kernels/cpu/simd/matmul_q8.h"
#include "kernels/cpu/simd/kernel_table.h"
#include "kernels/cpu/simd/vec.h"

namespace sluice::kernels::SLUICE_SIMD {
namespace {

constexpr int64_t kQuantBytes4 = 16 * kLanes;  // of one block
constexpr int64_t kQuantBytes8 = 32 * kLanes;

struct Tile {
  const std::byte* quants;
  const uint16_t* scales;  // [blocks][kLanes]
  const uint16_t* minima;
  int64_t blocks;
  const std::byte* in;  // first column
  int64_t in_stride;
};

SLUICE_INLINE const Q8Block* Column(const Tile& tile, int c, int64_t block) {
  return reinterpret_cast<const Q8Block*>(tile.in + c * tile.in_stride) + block;
}
SLUICE_INLINE int32_t FourBytes(const Q8Block* block, int group) {
  int32_t bytes;
  __builtin_memcpy(&bytes, block->q + 4 * group, 4);
  return bytes;
}

#if defined(__AVX512F__)

SLUICE_INLINE I32 LoadBytes(const std::byte* p) { return _mm512_loadu_si512(p); }
SLUICE_INLINE I32 ShiftNibbles(I32 x) { return _mm512_srli_epi16(x, 4); }
SLUICE_INLINE I32 Nibbles() { return _mm512_set1_epi8(0x0F); }

// Adds the dot products of 8 groups of 4: unsigned weights, signed activations.
SLUICE_INLINE I32 DotBlock(const I32 (&w)[8], const Q8Block* a, I32 start) {
  I32 dot = start;
#pragma GCC unroll 8
  for (int g = 0; g < 8; ++g) dot = _mm512_dpbusd_epi32(dot, w[g], Set1I(FourBytes(a, g)));
  return dot;
}

template <int C>
SLUICE_INLINE void DotBytes(const std::byte* quants, const Tile& tile, int64_t block,
                            I32 (&dots)[C]) {
  I32 w[8];
#pragma GCC unroll 8
  for (int g = 0; g < 8; ++g) w[g] = LoadBytes(quants + 64 * g);
#pragma GCC unroll 16
  for (int c = 0; c < C; ++c) {
    const Q8Block* a = Column(tile, c, block);
    dots[c] = DotBlock(w, a, Set1I(a->minus128));
  }
}

#else

SLUICE_INLINE I32 LoadBytes(const std::byte* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
SLUICE_INLINE I32 ShiftNibbles(I32 x) { return _mm256_srli_epi16(x, 4); }
SLUICE_INLINE I32 Nibbles() { return _mm256_set1_epi8(0x0F); }

// The same for weights of 4 bits: the sum of 8 pairs of products is at most 8 * 2 * 15 * 127 =
// 30480 and fits into 16 bits.
SLUICE_INLINE I32 DotBlock(const I32 (&w)[8], const Q8Block* a, I32 start) {
  I32 pairs = _mm256_maddubs_epi16(w[0], Set1I(FourBytes(a, 0)));
#pragma GCC unroll 8
  for (int g = 1; g < 8; ++g) {
    pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(w[g], Set1I(FourBytes(a, g))));
  }
  return AddI(start, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

// Signed weights: |w| times the activation with the sign of w; a pair of products is at most
// 2 * 128 * 127 = 32512.
template <int C>
SLUICE_INLINE void DotBytes(const std::byte* quants, const Tile& tile, int64_t block,
                            I32 (&dots)[C]) {
#pragma GCC unroll 8
  for (int c = 0; c < C; ++c) dots[c] = Set1I(0);
#pragma GCC unroll 8
  for (int g = 0; g < 8; ++g) {
    const I32 w = LoadBytes(quants + 32 * g);
    const I32 magnitude = _mm256_abs_epi8(w);
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) {
      const I32 a = _mm256_sign_epi8(Set1I(FourBytes(Column(tile, c, block), g)), w);
      const I32 pairs = _mm256_maddubs_epi16(magnitude, a);
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

template <int C>
struct Q4_1 {
  static constexpr int64_t kQuantBytes = kQuantBytes4;
  static constexpr bool kMinima = true;
  SLUICE_INLINE void Block(const Tile& tile, int64_t b, F32 (&acc)[C]) {
    I32 w[8];
    UnpackNibbles(tile.quants + b * kQuantBytes, w);
    const F32 d = LoadHalf(tile.scales + b * kLanes), m = LoadHalf(tile.minima + b * kLanes);
#pragma GCC unroll 16
    for (int c = 0; c < C; ++c) {
      const Q8Block* a = Column(tile, c, b);
      const F32 dot = ToFloat(DotBlock(w, a, Set1I(0)));
      acc[c] = Fma(dot, Mul(d, Set1(a->scale)), acc[c]);
      acc[c] = Fma(m, Set1(a->sum), acc[c]);
    }
  }
};

template <int C>
struct Q4_0 {
  static constexpr int64_t kQuantBytes = kQuantBytes4;
  static constexpr bool kMinima = false;
  SLUICE_INLINE void Block(const Tile& tile, int64_t b, F32 (&acc)[C]) {
    I32 w[8];
    UnpackNibbles(tile.quants + b * kQuantBytes, w);
    const F32 d = LoadHalf(tile.scales + b * kLanes);
#pragma GCC unroll 16
    for (int c = 0; c < C; ++c) {
      const Q8Block* a = Column(tile, c, b);
      const F32 dot = ToFloat(DotBlock(w, a, Set1I(a->minus8)));
      acc[c] = Fma(dot, Mul(d, Set1(a->scale)), acc[c]);
    }
  }
};

template <int C>
struct Q8_0 {
  static constexpr int64_t kQuantBytes = kQuantBytes8;
  static constexpr bool kMinima = false;
  SLUICE_INLINE void Block(const Tile& tile, int64_t b, F32 (&acc)[C]) {
    I32 dots[C];
    DotBytes<C>(tile.quants + b * kQuantBytes, tile, b, dots);
    const F32 d = LoadHalf(tile.scales + b * kLanes);
#pragma GCC unroll 16
    for (int c = 0; c < C; ++c) {
      const F32 scale = Set1(Column(tile, c, b)->scale);
      acc[c] = Fma(ToFloat(dots[c]), Mul(d, scale), acc[c]);
    }
  }
};

template <template <int> class Format, int C>
void RunTile(const MatMulTask& task, int64_t panel, int64_t column) {
  const int64_t blocks = task.cols / 32;
  Tile tile;
  tile.quants = task.weight + panel * task.panel_bytes;
  tile.scales = reinterpret_cast<const uint16_t*>(tile.quants + blocks * Format<C>::kQuantBytes);
  tile.minima = tile.scales + blocks * kLanes;
  tile.blocks = blocks;
  tile.in = task.in + column * task.in_stride;
  tile.in_stride = task.in_stride;

  F32 acc[C];
#pragma GCC unroll 16
  for (int c = 0; c < C; ++c) acc[c] = Zero();
  for (int64_t b = 0; b < blocks; ++b) Format<C>::Block(tile, b, acc);

  const int64_t row = panel * kLanes;
  const int n = task.rows - row < kLanes ? static_cast<int>(task.rows - row) : kLanes;
  const F32 bias = task.bias != nullptr ? LoadN(task.bias + row, n) : Zero();
  float* out = task.out + column * task.out_stride + row;
#pragma GCC unroll 16
  for (int c = 0; c < C; ++c) {
    const F32 result = task.bias != nullptr ? Add(acc[c], bias) : acc[c];
    StoreN(out + c * task.out_stride, result, n);
  }
}

using TileFunction = void (*)(const MatMulTask&, int64_t panel, int64_t column);

template <template <int> class Format>
void Run(const MatMulTask& task) {
  static constexpr TileFunction kTiles[] = {
    RunTile<Format, 1>,
    RunTile<Format, 2>,
    RunTile<Format, 3>,
    RunTile<Format, 4>,
#if defined(__AVX512F__)
    RunTile<Format, 5>,
    RunTile<Format, 6>,
    RunTile<Format, 7>,
    RunTile<Format, 8>,
    RunTile<Format, 9>,
    RunTile<Format, 10>,
    RunTile<Format, 11>,
    RunTile<Format, 12>,
#endif
  };
  // As few tiles as possible, of sizes as equal as possible.
  const int64_t tiles = (task.columns + kQ8Columns - 1) / kQ8Columns;
  int64_t column = 0;
  for (int64_t i = 0; i < tiles; ++i) {
    const int64_t size = (task.columns - column) / (tiles - i);
    const TileFunction run = kTiles[size - 1];
    for (int64_t panel = task.panel_begin; panel < task.panel_end; ++panel) {
      run(task, panel, column);
    }
    column += size;
  }
}

}  // namespace

void MatMulQ8_0(const MatMulTask& task) { Run<Q8_0>(task); }
void MatMulQ4_0(const MatMulTask& task) { Run<Q4_0>(task); }
void MatMulQ4_1(const MatMulTask& task) { Run<Q4_1>(task); }

}  // namespace sluice::kernels::SLUICE_SIMD
