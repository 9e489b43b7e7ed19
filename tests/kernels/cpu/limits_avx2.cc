#include <immintrin.h>

#include "tests/kernels/cpu/limits.h"

namespace sluice::kernels::bench {
namespace {

inline __m256i Opaque(__m256i x) {
  asm volatile("" : "+x"(x));
  return x;
}
inline int64_t Sum(__m256i x) {
  alignas(32) int32_t lanes[8];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), x);
  int64_t sum = 0;
  for (const int32_t lane : lanes) sum += lane;
  return sum;
}

}  // namespace

int64_t Avx2DotLoop(int64_t rounds) {
  __m256i acc[kDotChains] = {};
  const __m256i a = Opaque(_mm256_set1_epi8(3)), b = Opaque(_mm256_set1_epi8(5));
  const __m256i ones = _mm256_set1_epi16(1);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 10
    for (int c = 0; c < kDotChains; ++c) {
      acc[c] =
          _mm256_add_epi32(acc[c], _mm256_madd_epi16(_mm256_maddubs_epi16(Opaque(a), b), ones));
    }
  }
  int64_t sum = 0;
  for (const __m256i x : acc) sum += Sum(x);
  return sum;
}

int64_t Avx2NibbleDotLoop(int64_t rounds) {
  __m256i acc[kDotChains] = {};
  const __m256i a = Opaque(_mm256_set1_epi8(3)), b = Opaque(_mm256_set1_epi8(5));
  const __m256i ones = _mm256_set1_epi16(1);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 10
    for (int c = 0; c < kDotChains; ++c) {
      __m256i pairs = _mm256_maddubs_epi16(Opaque(a), b);
#pragma GCC unroll 8
      for (int g = 1; g < 8; ++g) {
        pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(Opaque(a), b));
      }
      acc[c] = _mm256_add_epi32(acc[c], _mm256_madd_epi16(pairs, ones));
    }
  }
  int64_t sum = 0;
  for (const __m256i x : acc) sum += Sum(x);
  return sum;
}

float Avx2FmaLoop(int64_t rounds) {
  // Chains that begin alike would be one to the compiler.
  __m256 acc[kDotChains];
  for (int c = 0; c < kDotChains; ++c) acc[c] = _mm256_set1_ps(static_cast<float>(c));
  __m256 a = _mm256_set1_ps(1.0f), b = _mm256_set1_ps(0.5f);
  asm volatile("" : "+x"(a), "+x"(b));
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 10
    for (int c = 0; c < kDotChains; ++c) acc[c] = _mm256_fmadd_ps(acc[c], b, a);
  }
  float sum = 0;
  for (const __m256 x : acc) sum += _mm256_cvtss_f32(x);
  return sum;
}

int64_t Avx2ReadLoop(const std::byte* data, size_t bytes) {
  __m256i acc[4] = {};
  for (size_t i = 0; i < bytes; i += 128) {
    for (size_t j = 0; j < 4; ++j) {
      const auto* p = reinterpret_cast<const __m256i*>(data + i + 32 * j);
      acc[j] = _mm256_xor_si256(acc[j], _mm256_load_si256(p));
    }
  }
  return Sum(acc[0]) + Sum(acc[1]) + Sum(acc[2]) + Sum(acc[3]);
}

}  // namespace sluice::kernels::bench
