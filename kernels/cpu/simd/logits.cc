// What sampling reads of a row of logits: passes at the speed of memory.

#include "kernels/cpu/simd/kernel_table.h"
#include "kernels/cpu/simd/rows.h"
#include "kernels/cpu/simd/vec.h"

namespace sluice::kernels::SLUICE_SIMD {
namespace {

#if defined(__AVX512F__)
constexpr int kDoubles = 8;
using F64 = __m512d;
SLUICE_INLINE F64 Set1D(double x) { return _mm512_set1_pd(x); }
SLUICE_INLINE F64 Widen(const float* p) { return _mm512_cvtps_pd(_mm256_loadu_ps(p)); }
SLUICE_INLINE F64 AddD(F64 a, F64 b) { return _mm512_add_pd(a, b); }
SLUICE_INLINE F64 SubD(F64 a, F64 b) { return _mm512_sub_pd(a, b); }
SLUICE_INLINE F64 DivD(F64 a, F64 b) { return _mm512_div_pd(a, b); }
SLUICE_INLINE F64 FmaD(F64 a, F64 b, F64 c) { return _mm512_fmadd_pd(a, b, c); }
SLUICE_INLINE F64 FnmaD(F64 a, F64 b, F64 c) { return _mm512_fnmadd_pd(a, b, c); }
SLUICE_INLINE F64 MaxD(F64 a, F64 b) { return _mm512_max_pd(a, b); }
SLUICE_INLINE void StoreD(double* p, F64 x) { _mm512_storeu_pd(p, x); }
// p * 2^n, n in the lower bits of `shifted`; 0 where x < limit.
SLUICE_INLINE F64 PowerOfTwo(F64 p, F64 shifted, F64 x, F64 limit) {
  const __m512i exponent = _mm512_slli_epi64(_mm512_castpd_si512(shifted), 52);
  const __m512i bits = _mm512_add_epi64(_mm512_castpd_si512(p), exponent);
  const __mmask8 counts = _mm512_cmp_pd_mask(x, limit, _CMP_GE_OQ);
  return _mm512_maskz_mov_pd(counts, _mm512_castsi512_pd(bits));
}
#else
constexpr int kDoubles = 4;
using F64 = __m256d;
SLUICE_INLINE F64 Set1D(double x) { return _mm256_set1_pd(x); }
SLUICE_INLINE F64 Widen(const float* p) { return _mm256_cvtps_pd(_mm_loadu_ps(p)); }
SLUICE_INLINE F64 AddD(F64 a, F64 b) { return _mm256_add_pd(a, b); }
SLUICE_INLINE F64 SubD(F64 a, F64 b) { return _mm256_sub_pd(a, b); }
SLUICE_INLINE F64 DivD(F64 a, F64 b) { return _mm256_div_pd(a, b); }
SLUICE_INLINE F64 FmaD(F64 a, F64 b, F64 c) { return _mm256_fmadd_pd(a, b, c); }
SLUICE_INLINE F64 FnmaD(F64 a, F64 b, F64 c) { return _mm256_fnmadd_pd(a, b, c); }
SLUICE_INLINE F64 MaxD(F64 a, F64 b) { return _mm256_max_pd(a, b); }
SLUICE_INLINE void StoreD(double* p, F64 x) { _mm256_storeu_pd(p, x); }
// p * 2^n, n in the lower bits of `shifted`; 0 where x < limit.
SLUICE_INLINE F64 PowerOfTwo(F64 p, F64 shifted, F64 x, F64 limit) {
  const __m256i exponent = _mm256_slli_epi64(_mm256_castpd_si256(shifted), 52);
  const __m256i bits = _mm256_add_epi64(_mm256_castpd_si256(p), exponent);
  return _mm256_and_pd(_mm256_cmp_pd(x, limit, _CMP_GE_OQ), _mm256_castsi256_pd(bits));
}
#endif

// exp(x) for x <= 0, to about one unit in the last place; 0 below -700. The Taylor series to the
// thirteenth power is exact to 4e-18 for |r| <= ln 2 / 2.
SLUICE_INLINE F64 ExpD(F64 x) {
  static const double kInverseFactorials[] = {1.0 / 6227020800.0,
                                              1.0 / 479001600.0,
                                              1.0 / 39916800.0,
                                              1.0 / 3628800.0,
                                              1.0 / 362880.0,
                                              1.0 / 40320.0,
                                              1.0 / 5040.0,
                                              1.0 / 720.0,
                                              1.0 / 120.0,
                                              1.0 / 24.0,
                                              1.0 / 6.0,
                                              1.0 / 2.0,
                                              1.0,
                                              1.0};
  const F64 limit = Set1D(-700.0), magic = Set1D(0x1.8p52);
  const F64 in = MaxD(x, limit);
  const F64 shifted = FmaD(in, Set1D(1.4426950408889634), magic);  // n in the lower bits
  const F64 n = SubD(shifted, magic);
  F64 r = FnmaD(n, Set1D(6.93147180369123816490e-01), in);
  r = FnmaD(n, Set1D(1.90821492927058770002e-10), r);
  F64 p = Set1D(kInverseFactorials[0]);
#pragma GCC unroll 16
  for (int i = 1; i < 14; ++i) p = FmaD(p, r, Set1D(kInverseFactorials[i]));
  return PowerOfTwo(p, shifted, x, limit);
}

}  // namespace

double SumOfWeights(const float* logits, int64_t n, float largest, float temperature) {
  const F64 most = Set1D(largest), divisor = Set1D(temperature);
  F64 sums = Set1D(0.0);
  double lanes[kDoubles];
  float rest[kDoubles];
  for (int64_t i = 0; i < n; i += kDoubles) {
    const float* source = logits + i;
    if (n - i < kDoubles) {
      for (int j = 0; j < kDoubles; ++j) rest[j] = i + j < n ? logits[i + j] : -__builtin_inff();
      source = rest;
    }
    sums = AddD(sums, ExpD(DivD(SubD(Widen(source), most), divisor)));
  }
  StoreD(lanes, sums);
  double sum = 0.0;
  for (int j = 0; j < kDoubles; ++j) sum += lanes[j];
  return sum;
}

int32_t Argmax(const float* logits, int64_t n) {
  const float infinity = __builtin_inff();
  F32 largest = Set1(-infinity);
  uint32_t bad = 0;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const F32 x = Load(logits + i);
    bad |= MaskBits(NotOrdered(x));
    largest = Max(x, largest);
  }
  float best = ReduceMax(largest);
  for (; i < n; ++i) {
    bad |= logits[i] != logits[i];
    best = logits[i] > best ? logits[i] : best;
  }
  if (bad != 0 || best == infinity || best == -infinity) return -1;
  for (i = 0; i + kLanes <= n; i += kLanes) {
    const uint32_t mask = MaskBits(NotLess(Load(logits + i), Set1(best)));
    if (mask != 0) return static_cast<int32_t>(i + __builtin_ctz(mask));
  }
  while (logits[i] != best) ++i;
  return static_cast<int32_t>(i);
}

int64_t Collect(const float* logits, int64_t n, float threshold, int32_t* ids, int64_t capacity) {
  int64_t found = 0, i = 0;
  const auto take = [&](int64_t id) {
    if (found < capacity) ids[found] = static_cast<int32_t>(id);
    ++found;
  };
  for (; i + kLanes <= n; i += kLanes) {
    uint32_t mask = MaskBits(NotLess(Load(logits + i), Set1(threshold)));
    for (; mask != 0; mask &= mask - 1) take(i + __builtin_ctz(mask));
  }
  for (; i < n; ++i) {
    if (logits[i] >= threshold) take(i);
  }
  return found;
}

}  // namespace sluice::kernels::SLUICE_SIMD
