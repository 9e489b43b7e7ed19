#pragma once

// A thin skin over one instruction set's float vectors, so that most kernels are one source.
// Included only by the files of this folder, which are compiled once per instruction set, with its
// flags and with SLUICE_SIMD naming its namespace.
//
// Such a file must not emit an inline function that code outside could share: the linker may keep
// either copy, and the kept one might not run on an older processor. Hence no standard headers with
// templates here, everything in this namespace, and helpers always inlined.

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#define SLUICE_INLINE static inline __attribute__((always_inline))

namespace sluice::kernels::SLUICE_SIMD {

#if defined(__AVX512F__)

constexpr int kLanes = 16;
using F32 = __m512;
using I32 = __m512i;
using Mask = __mmask16;

SLUICE_INLINE F32 Zero() { return _mm512_setzero_ps(); }
SLUICE_INLINE F32 Set1(float x) { return _mm512_set1_ps(x); }
SLUICE_INLINE I32 Set1I(int32_t x) { return _mm512_set1_epi32(x); }
SLUICE_INLINE F32 Load(const float* p) { return _mm512_loadu_ps(p); }
SLUICE_INLINE void Store(float* p, F32 x) { _mm512_storeu_ps(p, x); }
SLUICE_INLINE F32 Add(F32 a, F32 b) { return _mm512_add_ps(a, b); }
SLUICE_INLINE F32 Sub(F32 a, F32 b) { return _mm512_sub_ps(a, b); }
SLUICE_INLINE F32 Mul(F32 a, F32 b) { return _mm512_mul_ps(a, b); }
SLUICE_INLINE F32 Div(F32 a, F32 b) { return _mm512_div_ps(a, b); }
SLUICE_INLINE F32 Fma(F32 a, F32 b, F32 c) { return _mm512_fmadd_ps(a, b, c); }    // a*b + c
SLUICE_INLINE F32 Fnma(F32 a, F32 b, F32 c) { return _mm512_fnmadd_ps(a, b, c); }  // c - a*b
// a*b - c in even lanes, a*b + c in odd ones.
SLUICE_INLINE F32 FmaSubAdd(F32 a, F32 b, F32 c) { return _mm512_fmaddsub_ps(a, b, c); }
// The second operand where either is NaN.
SLUICE_INLINE F32 Max(F32 a, F32 b) { return _mm512_max_ps(a, b); }
SLUICE_INLINE F32 Min(F32 a, F32 b) { return _mm512_min_ps(a, b); }
SLUICE_INLINE F32 RoundToInt(F32 a) { return _mm512_roundscale_ps(a, 0x08); }
SLUICE_INLINE I32 ToInt(F32 a) { return _mm512_cvtps_epi32(a); }
SLUICE_INLINE F32 ToFloat(I32 a) { return _mm512_cvtepi32_ps(a); }
SLUICE_INLINE I32 Bits(F32 a) { return _mm512_castps_si512(a); }
SLUICE_INLINE F32 FromBits(I32 a) { return _mm512_castsi512_ps(a); }
SLUICE_INLINE I32 AddI(I32 a, I32 b) { return _mm512_add_epi32(a, b); }
SLUICE_INLINE I32 AndI(I32 a, I32 b) { return _mm512_and_si512(a, b); }
SLUICE_INLINE I32 MaxI(I32 a, I32 b) { return _mm512_max_epi32(a, b); }
template <int kBits>
SLUICE_INLINE I32 ShiftLeft(I32 a) {
  return _mm512_slli_epi32(a, kBits);
}
SLUICE_INLINE I32 LaneIndex() {
  return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
SLUICE_INLINE F32 DupEven(F32 a) { return _mm512_moveldup_ps(a); }
SLUICE_INLINE F32 DupOdd(F32 a) { return _mm512_movehdup_ps(a); }
SLUICE_INLINE F32 SwapPairs(F32 a) { return _mm512_permute_ps(a, 0xB1); }

SLUICE_INLINE Mask Less(F32 a, F32 b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
SLUICE_INLINE Mask LessI(I32 a, I32 b) { return _mm512_cmplt_epi32_mask(a, b); }
SLUICE_INLINE Mask NotLess(F32 a, F32 b) { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }
SLUICE_INLINE Mask NotOrdered(F32 a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
SLUICE_INLINE F32 Select(Mask m, F32 yes, F32 no) { return _mm512_mask_blend_ps(m, no, yes); }
SLUICE_INLINE uint32_t MaskBits(Mask m) { return m; }

SLUICE_INLINE Mask FirstLanes(int n) { return static_cast<Mask>((1u << n) - 1); }
SLUICE_INLINE F32 LoadN(const float* p, int n) { return _mm512_maskz_loadu_ps(FirstLanes(n), p); }
SLUICE_INLINE void StoreN(float* p, F32 x, int n) { _mm512_mask_storeu_ps(p, FirstLanes(n), x); }

SLUICE_INLINE F32 LoadHalf(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
SLUICE_INLINE F32 LoadHalfN(const uint16_t* p, int n) {
  return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(FirstLanes(n), p));
}
SLUICE_INLINE F32 LoadBFloat(const uint16_t* p) {
  const __m256i raw = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return FromBits(_mm512_slli_epi32(_mm512_cvtepu16_epi32(raw), 16));
}
SLUICE_INLINE void StoreHalf(uint16_t* p, F32 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(x, 0));
}
// The lanes, each in [-128, 127], as bytes.
SLUICE_INLINE void StoreBytes(int8_t* p, I32 x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(x));
}
SLUICE_INLINE I32 LoadInt8(const int8_t* p) {
  return _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

SLUICE_INLINE float FirstLane(F32 x) { return _mm512_cvtss_f32(x); }
SLUICE_INLINE __m256 Halve(F32 x, int upper) {
  return upper ? _mm512_extractf32x8_ps(x, 1) : _mm512_castps512_ps256(x);
}
SLUICE_INLINE __m256i HalveI(I32 x, int upper) {
  return upper ? _mm512_extracti32x8_epi32(x, 1) : _mm512_castsi512_si256(x);
}
SLUICE_INLINE __m256 AddHalves(F32 x) { return _mm256_add_ps(Halve(x, 0), Halve(x, 1)); }
SLUICE_INLINE __m256 MaxHalves(F32 x) { return _mm256_max_ps(Halve(x, 0), Halve(x, 1)); }
SLUICE_INLINE __m256i AddHalvesI(I32 x) { return _mm256_add_epi32(HalveI(x, 0), HalveI(x, 1)); }
SLUICE_INLINE __m256i MaxHalvesI(I32 x) { return _mm256_max_epi32(HalveI(x, 0), HalveI(x, 1)); }

#else

constexpr int kLanes = 8;
using F32 = __m256;
using I32 = __m256i;
using Mask = __m256;

SLUICE_INLINE F32 Zero() { return _mm256_setzero_ps(); }
SLUICE_INLINE F32 Set1(float x) { return _mm256_set1_ps(x); }
SLUICE_INLINE I32 Set1I(int32_t x) { return _mm256_set1_epi32(x); }
SLUICE_INLINE F32 Load(const float* p) { return _mm256_loadu_ps(p); }
SLUICE_INLINE void Store(float* p, F32 x) { _mm256_storeu_ps(p, x); }
SLUICE_INLINE F32 Add(F32 a, F32 b) { return _mm256_add_ps(a, b); }
SLUICE_INLINE F32 Sub(F32 a, F32 b) { return _mm256_sub_ps(a, b); }
SLUICE_INLINE F32 Mul(F32 a, F32 b) { return _mm256_mul_ps(a, b); }
SLUICE_INLINE F32 Div(F32 a, F32 b) { return _mm256_div_ps(a, b); }
SLUICE_INLINE F32 Fma(F32 a, F32 b, F32 c) { return _mm256_fmadd_ps(a, b, c); }    // a*b + c
SLUICE_INLINE F32 Fnma(F32 a, F32 b, F32 c) { return _mm256_fnmadd_ps(a, b, c); }  // c - a*b
// a*b - c in even lanes, a*b + c in odd ones.
SLUICE_INLINE F32 FmaSubAdd(F32 a, F32 b, F32 c) { return _mm256_fmaddsub_ps(a, b, c); }
// The second operand where either is NaN.
SLUICE_INLINE F32 Max(F32 a, F32 b) { return _mm256_max_ps(a, b); }
SLUICE_INLINE F32 Min(F32 a, F32 b) { return _mm256_min_ps(a, b); }
SLUICE_INLINE F32 RoundToInt(F32 a) { return _mm256_round_ps(a, 0x08); }
SLUICE_INLINE I32 ToInt(F32 a) { return _mm256_cvtps_epi32(a); }
SLUICE_INLINE F32 ToFloat(I32 a) { return _mm256_cvtepi32_ps(a); }
SLUICE_INLINE I32 Bits(F32 a) { return _mm256_castps_si256(a); }
SLUICE_INLINE F32 FromBits(I32 a) { return _mm256_castsi256_ps(a); }
SLUICE_INLINE I32 AddI(I32 a, I32 b) { return _mm256_add_epi32(a, b); }
SLUICE_INLINE I32 AndI(I32 a, I32 b) { return _mm256_and_si256(a, b); }
SLUICE_INLINE I32 MaxI(I32 a, I32 b) { return _mm256_max_epi32(a, b); }
template <int kBits>
SLUICE_INLINE I32 ShiftLeft(I32 a) {
  return _mm256_slli_epi32(a, kBits);
}
SLUICE_INLINE I32 LaneIndex() { return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); }
SLUICE_INLINE F32 DupEven(F32 a) { return _mm256_moveldup_ps(a); }
SLUICE_INLINE F32 DupOdd(F32 a) { return _mm256_movehdup_ps(a); }
SLUICE_INLINE F32 SwapPairs(F32 a) { return _mm256_permute_ps(a, 0xB1); }

SLUICE_INLINE Mask Less(F32 a, F32 b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
SLUICE_INLINE Mask LessI(I32 a, I32 b) { return FromBits(_mm256_cmpgt_epi32(b, a)); }
SLUICE_INLINE Mask NotLess(F32 a, F32 b) { return _mm256_cmp_ps(a, b, _CMP_GE_OQ); }
SLUICE_INLINE Mask NotOrdered(F32 a) { return _mm256_cmp_ps(a, a, _CMP_UNORD_Q); }
SLUICE_INLINE F32 Select(Mask m, F32 yes, F32 no) { return _mm256_blendv_ps(no, yes, m); }
SLUICE_INLINE uint32_t MaskBits(Mask m) { return static_cast<uint32_t>(_mm256_movemask_ps(m)); }

SLUICE_INLINE I32 FirstLanes(int n) { return _mm256_cmpgt_epi32(Set1I(n), LaneIndex()); }
SLUICE_INLINE F32 LoadN(const float* p, int n) { return _mm256_maskload_ps(p, FirstLanes(n)); }
SLUICE_INLINE void StoreN(float* p, F32 x, int n) { _mm256_maskstore_ps(p, FirstLanes(n), x); }

SLUICE_INLINE F32 LoadHalf(const uint16_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
SLUICE_INLINE F32 LoadHalfN(const uint16_t* p, int n) {
  if (n == kLanes) return LoadHalf(p);
  alignas(16) uint16_t raw[kLanes] = {};
  for (int i = 0; i < n; ++i) raw[i] = p[i];
  return LoadHalf(raw);
}
SLUICE_INLINE F32 LoadBFloat(const uint16_t* p) {
  const __m128i raw = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return FromBits(_mm256_slli_epi32(_mm256_cvtepu16_epi32(raw), 16));
}
SLUICE_INLINE void StoreHalf(uint16_t* p, F32 x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x, 0));
}
// The lanes, each in [-128, 127], as bytes.
SLUICE_INLINE void StoreBytes(int8_t* p, I32 x) {
  const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(words, words));
}
SLUICE_INLINE I32 LoadInt8(const int8_t* p) {
  return _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
}

SLUICE_INLINE float FirstLane(F32 x) { return _mm256_cvtss_f32(x); }
SLUICE_INLINE __m256 AddHalves(F32 x) { return x; }
SLUICE_INLINE __m256 MaxHalves(F32 x) { return x; }
SLUICE_INLINE __m256i AddHalvesI(I32 x) { return x; }
SLUICE_INLINE __m256i MaxHalvesI(I32 x) { return x; }

#endif

SLUICE_INLINE float ReduceAdd(F32 x) {
  const __m256 y = AddHalves(x);
  __m128 z = _mm_add_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
  z = _mm_add_ps(z, _mm_movehl_ps(z, z));
  return _mm_cvtss_f32(_mm_add_ss(z, _mm_movehdup_ps(z)));
}
SLUICE_INLINE float ReduceMax(F32 x) {  // of ordered lanes
  const __m256 y = MaxHalves(x);
  __m128 z = _mm_max_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
  z = _mm_max_ps(z, _mm_movehl_ps(z, z));
  return _mm_cvtss_f32(_mm_max_ss(z, _mm_movehdup_ps(z)));
}
SLUICE_INLINE int32_t ReduceAddI(I32 x) {
  const __m256i y = AddHalvesI(x);
  __m128i z = _mm_add_epi32(_mm256_castsi256_si128(y), _mm256_extracti128_si256(y, 1));
  z = _mm_add_epi32(z, _mm_shuffle_epi32(z, 0x4E));
  return _mm_cvtsi128_si32(_mm_add_epi32(z, _mm_shuffle_epi32(z, 0xB1)));
}
SLUICE_INLINE int32_t ReduceMaxI(I32 x) {
  const __m256i y = MaxHalvesI(x);
  __m128i z = _mm_max_epi32(_mm256_castsi256_si128(y), _mm256_extracti128_si256(y, 1));
  z = _mm_max_epi32(z, _mm_shuffle_epi32(z, 0x4E));
  return _mm_cvtsi128_si32(_mm_max_epi32(z, _mm_shuffle_epi32(z, 0xB1)));
}

SLUICE_INLINE float AsFloat(int32_t bits) {
  return _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(bits)));
}
SLUICE_INLINE float SquareRoot(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }

// exp(x) to about 1e-7 relative: x = n ln 2 + r, |r| <= ln 2 / 2, a polynomial for exp(r) (Cephes'
// expf), the exponent added by integer arithmetic. 0 below -87.3, large and finite above 88.3; a
// NaN stays one; exp(0) is 1 exactly.
SLUICE_INLINE F32 Exp(F32 x) {
  const Mask vanishes = Less(x, Set1(-87.3f));
  const F32 in = Max(Set1(-87.3f), Min(Set1(88.3f), x));
  const F32 n = RoundToInt(Mul(in, Set1(1.44269504088896341f)));
  F32 r = Fnma(n, Set1(0.693359375f), in);
  r = Fnma(n, Set1(-2.12194440e-4f), r);
  F32 p = Set1(1.9875691500e-4f);
  p = Fma(p, r, Set1(1.3981999507e-3f));
  p = Fma(p, r, Set1(8.3334519073e-3f));
  p = Fma(p, r, Set1(4.1665795894e-2f));
  p = Fma(p, r, Set1(1.6666665459e-1f));
  p = Fma(p, r, Set1(5.0000001201e-1f));
  p = Add(Fma(p, Mul(r, r), r), Set1(1.0f));
  // A NaN has n = INT_MIN, whose shifted bits are 0: it passes through unchanged.
  const F32 result = FromBits(AddI(Bits(p), ShiftLeft<23>(ToInt(n))));
  return Select(vanishes, Zero(), result);
}

}  // namespace sluice::kernels::SLUICE_SIMD
