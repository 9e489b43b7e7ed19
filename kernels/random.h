#pragma once

#include <cstdint>

namespace sluice::kernels {

// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): a
// counter-based generator, so that a draw is a pure function of its coordinates and needs no state
// anywhere.
inline uint32_t Philox(uint64_t seed, uint32_t choice, uint32_t position, uint32_t draw) {
  uint32_t c0 = position, c1 = choice, c2 = draw, c3 = 0;
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c0;
    const uint64_t p1 = uint64_t{0xCD9E8D57u} * c2;
    const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const uint32_t n2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1), c3 = static_cast<uint32_t>(p0), c0 = n0, c2 = n2;
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return c0;
}

// Uniform in [0, 1), 24 bits.
inline float UniformDraw(uint64_t seed, uint32_t choice, uint32_t position, uint32_t draw) {
  return static_cast<float>(Philox(seed, choice, position, draw) >> 8) * 0x1p-24f;
}

}  // namespace sluice::kernels
