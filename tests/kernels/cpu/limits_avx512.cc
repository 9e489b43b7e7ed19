#include <immintrin.h>

#include "tests/kernels/cpu/limits.h"

namespace sluice::kernels::bench {

// Chains that begin alike would be one to the compiler.
int64_t Avx512DotLoop(int64_t rounds) {
  __m512i acc[kDotChains];
  for (int c = 0; c < kDotChains; ++c) acc[c] = _mm512_set1_epi32(c);
  __m512i a = _mm512_set1_epi32(0x03030303), b = _mm512_set1_epi32(0x05050505);
  asm volatile("" : "+v"(a), "+v"(b));
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 10
    for (int c = 0; c < kDotChains; ++c) acc[c] = _mm512_dpbusd_epi32(acc[c], a, b);
  }
  int64_t sum = 0;
  for (const __m512i x : acc) sum += _mm512_reduce_add_epi32(x);
  return sum;
}

float Avx512FmaLoop(int64_t rounds) {
  __m512 acc[kDotChains];
  for (int c = 0; c < kDotChains; ++c) acc[c] = _mm512_set1_ps(static_cast<float>(c));
  __m512 a = _mm512_set1_ps(1.0f), b = _mm512_set1_ps(0.5f);
  asm volatile("" : "+v"(a), "+v"(b));
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 10
    for (int c = 0; c < kDotChains; ++c) acc[c] = _mm512_fmadd_ps(acc[c], b, a);
  }
  float sum = 0;
  for (const __m512 x : acc) sum += _mm512_cvtss_f32(x);
  return sum;
}

}  // namespace sluice::kernels::bench
