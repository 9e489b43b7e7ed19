// Float products: out[t][n] = sum over k of w[n][k] * in[t][k]. Chains of 64 fma each, in ascending
// order of k, are added up in order: short chains keep rounding errors from piling up.
//
// One vector lane is one weight row; a tile is P panels times C columns, the registers full of
// accumulators (P * C of them). Each accumulator is one chain, so the result does not depend on P
// or C; P panels side by side keep the multipliers busy when there are few columns.
//
// Float and 16-bit panels are read as they are. Quantised ones are unpacked kDepth columns at a
// time into float panels in scratch, which all columns then use; totals rest in `out` in between,
// which does not change them.

#include "kernels/cpu/simd/matmul_f32.h"

#include "kernels/cpu/simd/kernel_table.h"
#include "kernels/cpu/simd/vec.h"

namespace sluice::kernels::SLUICE_SIMD {
namespace {

#if defined(__AVX512F__)
constexpr int kColumnsMax = 12;
#else
constexpr int kColumnsMax = 6;
#endif

constexpr int64_t kChain = 64;
static_assert(kDepth % kChain == 0);

struct PlainF32 {
  using Element = float;
  SLUICE_INLINE F32 LoadRow(const float* p) { return Load(p); }
};
struct PlainF16 {
  using Element = uint16_t;
  SLUICE_INLINE F32 LoadRow(const uint16_t* p) { return LoadHalf(p); }
};
struct PlainBF16 {
  using Element = uint16_t;
  SLUICE_INLINE F32 LoadRow(const uint16_t* p) { return LoadBFloat(p); }
};

// A stretch of k of some panels, side by side.
struct Stretch {
  const void* weights = nullptr;  // elements [panels][..][kLanes]
  int64_t panel_stride = 0;       // elements
  int64_t k0 = 0, depth = 0;
  bool first = true, last = true;  // of the stretches of a row
  int64_t row = 0;                 // first row
};

struct Position {
  int64_t panel = 0, column = 0;
};

SLUICE_INLINE int LanesIn(const MatMulTask& task, int64_t row) {
  return task.rows - row < kLanes ? static_cast<int>(task.rows - row) : kLanes;
}

template <class Element>
struct Operands {
  const Element* w;
  int64_t panel_stride;
  const float* x;
  int64_t x_stride;
};

// total += the sum over k in [k, end).
template <class Format, int P, int C>
SLUICE_INLINE void SumChain(const Operands<typename Format::Element>& in, int64_t k, int64_t end,
                            F32 (&total)[C][P]) {
  F32 acc[C][P];
#pragma GCC unroll 16
  for (int c = 0; c < C; ++c) {
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) acc[c][p] = Zero();
  }
  for (; k < end; ++k) {
    F32 w[P];
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) w[p] = Format::LoadRow(in.w + p * in.panel_stride + k * kLanes);
#pragma GCC unroll 16
    for (int c = 0; c < C; ++c) {
      const F32 x = Set1(in.x[c * in.x_stride + k]);
#pragma GCC unroll 8
      for (int p = 0; p < P; ++p) acc[c][p] = Fma(w[p], x, acc[c][p]);
    }
  }
#pragma GCC unroll 16
  for (int c = 0; c < C; ++c) {
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) total[c][p] = Add(total[c][p], acc[c][p]);
  }
}

template <class Format, int P, int C>
void RunTile(const MatMulTask& task, const Stretch& s, Position at) {
  using Element = typename Format::Element;
  const Element* w = static_cast<const Element*>(s.weights) + at.panel * s.panel_stride;
  const float* x = reinterpret_cast<const float*>(task.in + at.column * task.in_stride) + s.k0;
  const int64_t x_stride = task.in_stride / 4;
  const int64_t row = s.row + at.panel * kLanes;
  float* out = task.out + at.column * task.out_stride + row;

  F32 total[C][P];
#pragma GCC unroll 16
  for (int c = 0; c < C; ++c) {
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) {
      const float* partial = out + c * task.out_stride + p * kLanes;
      total[c][p] = s.first ? Zero() : LoadN(partial, LanesIn(task, row + p * kLanes));
    }
  }
  for (int64_t k = 0; k < s.depth; k += kChain) {
    const int64_t end = s.depth - k < kChain ? s.depth : k + kChain;
    SumChain<Format, P, C>({w, s.panel_stride, x, x_stride}, k, end, total);
  }
#pragma GCC unroll 8
  for (int p = 0; p < P; ++p) {
    const int n = LanesIn(task, row + p * kLanes);
    const bool add = s.last && task.bias != nullptr;
    const F32 bias = add ? LoadN(task.bias + row + p * kLanes, n) : Zero();
#pragma GCC unroll 16
    for (int c = 0; c < C; ++c) {
      const F32 result = add ? Add(total[c][p], bias) : total[c][p];
      StoreN(out + c * task.out_stride + p * kLanes, result, n);
    }
  }
}

using TileFunction = void (*)(const MatMulTask&, const Stretch&, Position);

// Tiles of C columns by panels: by eights, fours, twos, ones, as far as registers go.
template <class Format, int C>
void RunColumns(const MatMulTask& task, const Stretch& s, int64_t panels, int64_t column) {
  constexpr int kWide = kColumnsMax * 2 / C >= 8 ? 8 : kColumnsMax * 2 / C >= 4 ? 4 : 2;
  int64_t panel = 0;
  for (; panel + kWide <= panels; panel += kWide) {
    RunTile<Format, kWide, C>(task, s, {panel, column});
  }
  if constexpr (kWide > 4) {
    for (; panel + 4 <= panels; panel += 4) RunTile<Format, 4, C>(task, s, {panel, column});
  }
  if constexpr (kWide > 2) {
    for (; panel + 2 <= panels; panel += 2) RunTile<Format, 2, C>(task, s, {panel, column});
  }
  if (panel < panels) RunTile<Format, 1, C>(task, s, {panel, column});
}

template <class Format>
void RunStretch(const MatMulTask& task, const Stretch& s, int64_t panels) {
  using Function = void (*)(const MatMulTask&, const Stretch&, int64_t, int64_t);
  static constexpr Function kFunctions[] = {
    RunColumns<Format, 1>,
    RunColumns<Format, 2>,
    RunColumns<Format, 3>,
    RunColumns<Format, 4>,
    RunColumns<Format, 5>,
    RunColumns<Format, 6>,
#if defined(__AVX512F__)
    RunColumns<Format, 7>,
    RunColumns<Format, 8>,
    RunColumns<Format, 9>,
    RunColumns<Format, 10>,
    RunColumns<Format, 11>,
    RunColumns<Format, 12>,
#endif
  };
  const int64_t tiles = (task.columns + kColumnsMax - 1) / kColumnsMax;
  int64_t column = 0;
  for (int64_t i = 0; i < tiles; ++i) {
    const int64_t size = (task.columns - column) / (tiles - i);
    kFunctions[size - 1](task, s, panels, column);
    column += size;
  }
}

template <class Format>
void RunPlain(const MatMulTask& task) {
  Stretch s;
  s.weights = task.weight + task.panel_begin * task.panel_bytes;
  s.panel_stride = task.panel_bytes / static_cast<int64_t>(sizeof(typename Format::Element));
  s.depth = task.cols;
  s.row = task.panel_begin * kLanes;
  RunStretch<Format>(task, s, task.panel_end - task.panel_begin);
}

// Lane values of group g of four columns: bytes [lanes][4] to four float vectors, stored to out.
SLUICE_INLINE void StoreFour(I32 bytes, F32 d, F32 m, float offset, float* out) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
#if defined(__AVX512F__)
    const I32 value = _mm512_and_si512(_mm512_srli_epi32(bytes, 8 * i), Set1I(0xFF));
#else
    const I32 value = _mm256_and_si256(_mm256_srli_epi32(bytes, 8 * i), Set1I(0xFF));
#endif
    // As the formats define it: the product rounded, then the sum.
    Store(out + i * kLanes, Add(Mul(d, Sub(ToFloat(value), Set1(offset))), m));
  }
}
SLUICE_INLINE I32 LoadBytes(const std::byte* p) {
#if defined(__AVX512F__)
  return _mm512_loadu_si512(p);
#else
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
#endif
}
SLUICE_INLINE I32 FlipSigns(I32 bytes) {
#if defined(__AVX512F__)
  return bytes;  // held flipped
#else
  return _mm256_xor_si256(bytes, _mm256_set1_epi8(static_cast<char>(0x80)));
#endif
}
SLUICE_INLINE I32 UpperNibbles(I32 bytes) {
#if defined(__AVX512F__)
  return _mm512_and_si512(_mm512_srli_epi16(bytes, 4), _mm512_set1_epi8(0x0F));
#else
  return _mm256_and_si256(_mm256_srli_epi16(bytes, 4), _mm256_set1_epi8(0x0F));
#endif
}
SLUICE_INLINE I32 LowerNibbles(I32 bytes) {
#if defined(__AVX512F__)
  return _mm512_and_si512(bytes, _mm512_set1_epi8(0x0F));
#else
  return _mm256_and_si256(bytes, _mm256_set1_epi8(0x0F));
#endif
}

// Unpackers: columns [k0, k0 + depth) of a panel, multiples of 32, to out [depth][kLanes].
struct UnpackQ8_0 {
  static void Run(const MatMulTask& task, int64_t panel, int64_t k0, int64_t depth, float* out) {
    const std::byte* quants = task.weight + panel * task.panel_bytes;
    const auto* scales = reinterpret_cast<const uint16_t*>(quants + task.cols * kLanes);
    for (int64_t b = k0 / 32; b < (k0 + depth) / 32; ++b) {
      const F32 d = LoadHalf(scales + b * kLanes);
      for (int g = 0; g < 8; ++g, out += 4 * kLanes) {
        StoreFour(FlipSigns(LoadBytes(quants + (b * 8 + g) * 4 * kLanes)), d, Zero(), 128.0f, out);
      }
    }
  }
};

template <bool kMinima>
struct UnpackQ4 {
  static void Run(const MatMulTask& task, int64_t panel, int64_t k0, int64_t depth, float* out) {
    const std::byte* quants = task.weight + panel * task.panel_bytes;
    const auto* scales = reinterpret_cast<const uint16_t*>(quants + task.cols / 2 * kLanes);
    const uint16_t* minima = scales + task.cols / 32 * kLanes;
    const float offset = kMinima ? 0.0f : 8.0f;
    for (int64_t b = k0 / 32; b < (k0 + depth) / 32; ++b, out += 32 * kLanes) {
      const F32 d = LoadHalf(scales + b * kLanes);
      const F32 m = kMinima ? LoadHalf(minima + b * kLanes) : Zero();
      for (int g = 0; g < 4; ++g) {
        const I32 packed = LoadBytes(quants + (b * 4 + g) * 4 * kLanes);
        StoreFour(LowerNibbles(packed), d, m, offset, out + g * 4 * kLanes);
        StoreFour(UpperNibbles(packed), d, m, offset, out + (g + 4) * 4 * kLanes);
      }
    }
  }
};

struct UnpackRaw {
  static void Run(const MatMulTask& task, int64_t panel, int64_t k0, int64_t depth, float* out) {
    task.unpack_raw(task.unpack_context, panel, k0, depth, out);
  }
};

template <class Unpack>
void RunUnpacked(const MatMulTask& task) {
  const int64_t together = task.columns == 1 ? kPanelsMax : task.columns <= 3 ? 4 : 2;
  for (int64_t panel = task.panel_begin; panel < task.panel_end; panel += together) {
    const int64_t left = task.panel_end - panel;
    const int64_t panels = left < together ? left : together;
    for (int64_t k0 = 0; k0 < task.cols; k0 += kDepth) {
      const int64_t depth = task.cols - k0 < kDepth ? task.cols - k0 : kDepth;
      for (int64_t p = 0; p < panels; ++p) {
        Unpack::Run(task, panel + p, k0, depth, task.scratch + p * kDepth * kLanes);
      }
      Stretch s;
      s.weights = task.scratch;
      s.panel_stride = kDepth * kLanes;
      s.k0 = k0, s.depth = depth;
      s.first = k0 == 0, s.last = k0 + depth == task.cols;
      s.row = panel * kLanes;
      RunStretch<PlainF32>(task, s, panels);
    }
  }
}

}  // namespace

void MatMulF32(const MatMulTask& task) { RunPlain<PlainF32>(task); }
void MatMulF16(const MatMulTask& task) { RunPlain<PlainF16>(task); }
void MatMulBF16(const MatMulTask& task) { RunPlain<PlainBF16>(task); }
void MatMulF32Q8_0(const MatMulTask& task) { RunUnpacked<UnpackQ8_0>(task); }
void MatMulF32Q4_0(const MatMulTask& task) { RunUnpacked<UnpackQ4<false>>(task); }
void MatMulF32Q4_1(const MatMulTask& task) { RunUnpacked<UnpackQ4<true>>(task); }
void MatMulF32Raw(const MatMulTask& task) { RunUnpacked<UnpackRaw>(task); }

}  // namespace sluice::kernels::SLUICE_SIMD
