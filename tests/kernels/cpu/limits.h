#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::kernels::bench {

// What a core can do at most: loops of nothing but the instructions in question. Each returns a
// value that depends on all its work, so that none of it is left out.

// `rounds` times 10 independent multiply-adds: u8 x s8 products into 32 bits.
constexpr int kDotChains = 10;
int64_t Avx2DotLoop(int64_t rounds);        // vpmaddubsw, vpmaddwd, vpaddd: 64 operations
int64_t Avx2NibbleDotLoop(int64_t rounds);  // of 8: 8 vpmaddubsw, 7 vpaddw, vpmaddwd, vpaddd
int64_t Avx512DotLoop(int64_t rounds);      // vpdpbusd: 128 operations
float Avx2FmaLoop(int64_t rounds);          // 16 operations
float Avx512FmaLoop(int64_t rounds);        // 32 operations
// Reads `bytes` (a multiple of 1024).
int64_t Avx2ReadLoop(const std::byte* data, size_t bytes);

}  // namespace sluice::kernels::bench
