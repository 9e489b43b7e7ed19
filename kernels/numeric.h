#pragma once

#include <bit>
#include <cstdint>

namespace sluice::kernels {

// Conversions between float and the 16-bit formats, in portable integer arithmetic: exact, with
// subnormals and infinities; to the narrow side rounded to nearest, ties to even. A NaN keeps its
// sign and the upper bits of its payload and becomes quiet, as the F16C instructions do it.

// IEEE 754 binary16: 1 sign, 5 exponent, 10 fraction bits.
inline float HalfToFloat(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000u} << 16;
  const uint32_t exponent = (half >> 10) & 0x1Fu;
  const uint32_t fraction = half & 0x3FFu;
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24, which float holds exactly
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  if (exponent == 0x1F) {
    const uint32_t quiet = fraction != 0 ? 0x400000u : 0u;
    return std::bit_cast<float>(sign | 0x7F800000u | (fraction << 13) | quiet);
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
}

inline uint16_t FloatToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) {
    return static_cast<uint16_t>(sign | 0x7E00u | ((magnitude >> 13) & 0x3FFu));
  }
  if (magnitude >= 0x477FF000u) return static_cast<uint16_t>(sign | 0x7C00u);  // >= 65520
  uint32_t kept = 0, dropped_bits = 0, significand = 0;
  if (magnitude >= 0x38800000u) {  // normal: at least 2^-14
    significand = magnitude - 0x38000000u;
    dropped_bits = 13;
  } else {  // subnormal: units of 2^-24
    const uint32_t exponent = magnitude >> 23;
    if (exponent < 102) return static_cast<uint16_t>(sign);  // below 2^-25: to zero
    significand = (magnitude & 0x7FFFFFu) | 0x800000u;
    dropped_bits = 126 - exponent;
  }
  kept = significand >> dropped_bits;
  const uint32_t rest = significand & ((1u << dropped_bits) - 1);
  const uint32_t half_way = 1u << (dropped_bits - 1);
  if (rest > half_way || (rest == half_way && (kept & 1u))) ++kept;
  return static_cast<uint16_t>(sign | kept);
}

// bfloat16: the upper half of a float.
inline float BFloat16ToFloat(uint16_t value) { return std::bit_cast<float>(uint32_t{value} << 16); }

inline uint16_t FloatToBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace sluice::kernels
