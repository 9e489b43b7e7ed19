// Kernels over one row each: bound by memory or, for short rows, by latency.

#include "kernels/cpu/simd/rows.h"

#include "kernels/cpu/simd/kernel_table.h"
#include "kernels/cpu/simd/vec.h"

namespace sluice::kernels::SLUICE_SIMD {
namespace {

// Vectors of a row of n: body(index, lanes), lanes < kLanes at most for the last.
template <typename Body>
SLUICE_INLINE void ForVectors(int64_t n, Body body) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, kLanes);
  if (i < n) body(i, static_cast<int>(n - i));
}

SLUICE_INLINE F32 LoadSome(const float* p, int n) { return n == kLanes ? Load(p) : LoadN(p, n); }
SLUICE_INLINE void StoreSome(float* p, F32 x, int n) {
  if (n == kLanes) {
    Store(p, x);
  } else {
    StoreN(p, x, n);
  }
}

constexpr int kVectorsInBlock = 32 / kLanes;
constexpr int32_t kInfinityBits = 0x7F800000;

struct Block {
  F32 x[kVectorsInBlock];
};

// Values [at, at + 32) of x [n], zeros beyond its end.
SLUICE_INLINE Block LoadBlock(const float* x, int64_t at, int64_t n) {
  Block block;
#pragma GCC unroll 4
  for (int j = 0; j < kVectorsInBlock; ++j) {
    const int64_t begin = at + j * kLanes, left = n - begin;
    if (left >= kLanes) {
      block.x[j] = Load(x + begin);
    } else {
      block.x[j] = left > 0 ? LoadN(x + begin, static_cast<int>(left)) : Zero();
    }
  }
  return block;
}

SLUICE_INLINE Q8Part PartOf(float scale, int32_t sum) { return {scale, -8 * sum, -128 * sum}; }

SLUICE_INLINE void QuantizeBlock(const Block& block, Q8Block* out) {
  // As integers, the bits of magnitudes are ordered like the magnitudes, NaN above infinity.
  I32 magnitude = Set1I(0);
#pragma GCC unroll 4
  for (const F32& x : block.x) magnitude = MaxI(magnitude, AndI(Bits(x), Set1I(0x7FFFFFFF)));
  const int32_t bits = ReduceMaxI(magnitude);
  const float largest = AsFloat(bits);
  const bool usable = bits < kInfinityBits && largest >= 0x1p-100f;
  const F32 inverse = Set1(usable ? 127.0f / largest : 0.0f);
  const float scale = bits >= kInfinityBits ? __builtin_nanf("") : usable ? largest / 127.0f : 0.0f;
  I32 total = Set1I(0);
#pragma GCC unroll 4
  for (int i = 0; i < kVectorsInBlock; ++i) {
    const I32 q = usable ? ToInt(Mul(block.x[i], inverse)) : Set1I(0);
    total = AddI(total, q);
    StoreBytes(out->q + i * kLanes, q);
    StoreBytes(out->fine + i * kLanes, Set1I(0));
  }
  const int32_t sum = ReduceAddI(total);
  out->of_q = PartOf(scale, sum);
  out->of_fine = PartOf(0.0f, 0);
  out->sum = scale * static_cast<float>(sum);
  out->refined = 0;
}

// What is left of a value is at most scale / 2 and a few roundings, which end at 127 again.
SLUICE_INLINE void RefineBlock(const Block& block, Q8Block* out) {
  const float scale = out->of_q.scale;
  const F32 inverse = Set1(254.0f / scale);
  I32 total = Set1I(0);
#pragma GCC unroll 4
  for (int i = 0; i < kVectorsInBlock; ++i) {
    const F32 q = ToFloat(LoadInt8(out->q + i * kLanes));
    const I32 fine = ToInt(Mul(Fnma(Set1(scale), q, block.x[i]), inverse));
    total = AddI(total, fine);
    StoreBytes(out->fine + i * kLanes, fine);
  }
  const int32_t sum = ReduceAddI(total);
  out->of_fine = PartOf(scale / 254.0f, sum);
  out->sum += out->of_fine.scale * static_cast<float>(sum);
  out->refined = 1;
}

SLUICE_INLINE F32 Silu(F32 x) { return Div(x, Add(Set1(1.0f), Exp(Sub(Zero(), x)))); }

// x/2 * (1 + tanh(z)) = x / (1 + exp(-2 z)), z = sqrt(2/pi) * (x + 0.044715 x^3).
SLUICE_INLINE F32 Gelu(F32 x) {
  const F32 cubic = Mul(Mul(x, x), Set1(0.044715f));
  const F32 z2 = Mul(Fma(cubic, x, x), Set1(-1.5957691216057308f));
  return Div(x, Add(Set1(1.0f), Exp(z2)));
}

template <typename Function>
SLUICE_INLINE void Gate(float* out, const float* gate, const float* up, int64_t n,
                        Function function) {
  ForVectors(
      n, [&](int64_t i, int lanes) __attribute__((always_inline)) {
        const F32 result = Mul(function(LoadSome(gate + i, lanes)), LoadSome(up + i, lanes));
        StoreSome(out + i, result, lanes);
      });
}

SLUICE_INLINE float InverseNorm(F32 squares, int64_t n, float eps) {
  return 1.0f / SquareRoot(ReduceAdd(squares) / static_cast<float>(n) + eps);
}

void ScaleRow(float* out, const float* x, const float* weight, int64_t n, float factor) {
  ForVectors(
      n, [&](int64_t i, int lanes) __attribute__((always_inline)) {
        const F32 scaled = Mul(LoadSome(x + i, lanes), Set1(factor));
        StoreSome(out + i, Mul(scaled, LoadSome(weight + i, lanes)), lanes);
      });
}

void RotateAdjacent(float* head, const float* rope, int64_t pairs) {
  ForVectors(
      2 * pairs, [&](int64_t i, int lanes) __attribute__((always_inline)) {
        const F32 angles = LoadSome(rope + i, lanes);
        const F32 x = LoadSome(head + i, lanes);
        // Even lanes a cos - b sin, odd lanes b cos + a sin.
        const F32 crossed = Mul(SwapPairs(x), DupOdd(angles));
        StoreSome(head + i, FmaSubAdd(x, DupEven(angles), crossed), lanes);
      });
}

void RotateHalves(float* head, const float* rope, int64_t pairs) {
  for (int64_t i = 0; i < pairs; ++i) {
    const float cosine = rope[2 * i], sine = rope[2 * i + 1];
    const float a = head[i], b = head[i + pairs];
    head[i] = __builtin_fmaf(a, cosine, -(b * sine));
    head[i + pairs] = __builtin_fmaf(b, cosine, a * sine);
  }
}

}  // namespace

void Quantize(const float* x, int64_t n, Q8Block* out) {
  for (int64_t i = 0; i < n; i += 32, ++out) QuantizeBlock(LoadBlock(x, i, n), out);
}

void Refine(const float* x, int64_t n, Q8Block* blocks) {
  const int64_t count = (n + 31) / 32;
  double squares = 0.0;
  for (int64_t b = 0; b < count; ++b) {
    squares += static_cast<double>(blocks[b].of_q.scale) * blocks[b].of_q.scale;
  }
  for (int64_t b = 0; b < count; ++b) {
    const double square = static_cast<double>(blocks[b].of_q.scale) * blocks[b].of_q.scale;
    if (square * static_cast<double>(count) > squares) {
      RefineBlock(LoadBlock(x, 32 * b, n), blocks + b);
    }
  }
}

void AddRmsNorm(const NormTask& task) {
  F32 squares = Zero();
  ForVectors(
      task.n, [&](int64_t i, int lanes) __attribute__((always_inline)) {
        const F32 sum = Add(LoadSome(task.x + i, lanes), LoadSome(task.delta + i, lanes));
        StoreSome(task.x + i, sum, lanes);
        squares = Fma(sum, sum, squares);
      });
  ScaleRow(task.out, task.x, task.weight, task.n, InverseNorm(squares, task.n, task.eps));
}

void RmsNorm(float* out, const float* x, const float* weight, int64_t n, float eps) {
  F32 squares = Zero();
  ForVectors(
      n, [&](int64_t i, int lanes) __attribute__((always_inline)) {
        const F32 v = LoadSome(x + i, lanes);
        squares = Fma(v, v, squares);
      });
  ScaleRow(out, x, weight, n, InverseNorm(squares, n, eps));
}

void GateSilu(float* out, const float* gate, const float* up, int64_t n) {
  Gate(
      out, gate, up, n, [](F32 x) __attribute__((always_inline)) { return Silu(x); });
}
void GateGelu(float* out, const float* gate, const float* up, int64_t n) {
  Gate(
      out, gate, up, n, [](F32 x) __attribute__((always_inline)) { return Gelu(x); });
}

void Rope(const RopeTask& task) {
  for (int64_t h = 0; h < task.count; ++h) {
    float* head = task.heads + h * task.head_dim;
    if (task.adjacent) {
      RotateAdjacent(head, task.rope, task.pairs);
    } else {
      RotateHalves(head, task.rope, task.pairs);
    }
  }
}

void ToHalf(const float* x, int64_t n, uint16_t* out) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) StoreHalf(out + i, Load(x + i));
  if (i == n) return;
  uint16_t rest[kLanes];
  StoreHalf(rest, LoadN(x + i, static_cast<int>(n - i)));
  for (int64_t j = 0; i + j < n; ++j) out[i + j] = rest[j];
}

void Scale(float* out, const float* x, int64_t n, float factor) {
  ForVectors(
      n, [&](int64_t i, int lanes) __attribute__((always_inline)) {
        StoreSome(out + i, Mul(LoadSome(x + i, lanes), Set1(factor)), lanes);
      });
}

}  // namespace sluice::kernels::SLUICE_SIMD
