#include "kernels/dequantize.h"

#include <array>
#include <cstring>

#include "kernels/check.h"
#include "kernels/numeric.h"

// The block formats of GGUF files. Numbers are little endian; `half` is a binary16.
//
//   Q8_0  half d; int8 q[32]                          x = d * q
//   Q4_0  half d; nibbles[16]                         x = d * (q - 8)
//   Q4_1  half d, m; nibbles[16]                      x = d * q + m
//   Q5_0  half d; uint32 high; nibbles[16]            x = d * (q - 16)
//   Q5_1  half d, m; uint32 high; nibbles[16]         x = d * q + m
//     nibbles: element i is the low half of byte i, element i + 16 its high half; bit i of `high`
//     is the fifth bit of element i.
//   Q4_K  half d, m; scales[12]; nibbles[128]         x = d * s * q - m * t
//   Q5_K  half d, m; scales[12]; high[32]; nibbles[128]
//     Eight groups of 32 with 6-bit s and t each. Groups 2c and 2c+1 are the low and the high
//     halves of nibbles[32c .. 32c+31]; bit g of high[i] is the fifth bit of element i of group g.
//   Q6_K  low[128]; high[64]; int8 s[16]; half d      x = d * s * (q - 32), s per 16 elements
//     Two halves of 128, each with 64 bytes of low and 32 of high; element 32j + i of a half has
//     its lower four bits in low[32 (j % 2) + i] (low nibble for j < 2, else high) and its upper
//     two at bit 2j of high[i].
namespace sluice::kernels {
namespace {

uint8_t Byte(const std::byte* p, int64_t i) { return std::to_integer<uint8_t>(p[i]); }
int SignedByte(const std::byte* p, int64_t i) { return static_cast<int8_t>(Byte(p, i)); }

uint16_t Word(const std::byte* p) { return static_cast<uint16_t>(Byte(p, 0) | (Byte(p, 1) << 8)); }
float Half(const std::byte* p) { return HalfToFloat(Word(p)); }
uint32_t DoubleWord(const std::byte* p) {
  return uint32_t{Word(p)} | (uint32_t{Word(p + 2)} << 16);
}

// Nibble i (0..31) of a block of 32.
int Nibble(const std::byte* nibbles, int i) {
  return i < 16 ? Byte(nibbles, i) & 0xF : Byte(nibbles, i - 16) >> 4;
}
int HighBit(uint32_t high, int i) { return static_cast<int>((high >> i) & 1u) << 4; }

void Q8_0Block(const std::byte* block, float* out) {
  const float d = Half(block);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(SignedByte(block, 2 + i));
}

void Q4_0Block(const std::byte* block, float* out) {
  const float d = Half(block);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(Nibble(block + 2, i) - 8);
}

void Q4_1Block(const std::byte* block, float* out) {
  const float d = Half(block), m = Half(block + 2);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(Nibble(block + 4, i)) + m;
}

void Q5_0Block(const std::byte* block, float* out) {
  const float d = Half(block);
  const uint32_t high = DoubleWord(block + 2);
  for (int i = 0; i < 32; ++i) {
    out[i] = d * static_cast<float>((Nibble(block + 6, i) | HighBit(high, i)) - 16);
  }
}

void Q5_1Block(const std::byte* block, float* out) {
  const float d = Half(block), m = Half(block + 2);
  const uint32_t high = DoubleWord(block + 4);
  for (int i = 0; i < 32; ++i) {
    out[i] = d * static_cast<float>(Nibble(block + 8, i) | HighBit(high, i)) + m;
  }
}

struct GroupScale {
  float scale, min;
};

// The 6-bit pairs of a K block: twelve bytes hold the lower bits of groups 0-3 as bytes 0-3 (scale)
// and 4-7 (min); bytes 8-11 the lower four bits of groups 4-7, whose upper two bits are the top
// bits of the bytes before.
GroupScale UnpackGroupScale(const std::byte* scales, int group) {
  int s = 0, t = 0;
  if (group < 4) {
    s = Byte(scales, group) & 0x3F;
    t = Byte(scales, group + 4) & 0x3F;
  } else {
    s = (Byte(scales, group + 4) & 0xF) | ((Byte(scales, group - 4) >> 6) << 4);
    t = (Byte(scales, group + 4) >> 4) | ((Byte(scales, group) >> 6) << 4);
  }
  return {static_cast<float>(s), static_cast<float>(t)};
}

void Q4Or5KBlock(const std::byte* block, bool five_bits, float* out) {
  const float d = Half(block), m = Half(block + 2);
  const std::byte* scales = block + 4;
  const std::byte* high = block + 16;
  const std::byte* nibbles = five_bits ? block + 48 : block + 16;
  for (int group = 0; group < 8; ++group) {
    const GroupScale g = UnpackGroupScale(scales, group);
    const float scale = d * g.scale, min = m * g.min;
    for (int i = 0; i < 32; ++i) {
      const int byte = Byte(nibbles, group / 2 * 32 + i);
      int q = group % 2 == 0 ? byte & 0xF : byte >> 4;
      if (five_bits) q |= ((Byte(high, i) >> group) & 1) << 4;
      out[group * 32 + i] = scale * static_cast<float>(q) - min;
    }
  }
}

void Q4_KBlock(const std::byte* block, float* out) { Q4Or5KBlock(block, false, out); }
void Q5_KBlock(const std::byte* block, float* out) { Q4Or5KBlock(block, true, out); }

void Q6_KBlock(const std::byte* block, float* out) {
  const float d = Half(block + 208);
  for (int half = 0; half < 2; ++half) {
    const std::byte* low = block + half * 64;
    const std::byte* high = block + 128 + half * 32;
    for (int j = 0; j < 4; ++j) {
      for (int i = 0; i < 32; ++i) {
        const int byte = Byte(low, j % 2 * 32 + i);
        const int q = (j < 2 ? byte & 0xF : byte >> 4) | (((Byte(high, i) >> (2 * j)) & 3) << 4);
        const int element = half * 128 + j * 32 + i;
        const float scale = d * static_cast<float>(SignedByte(block, 192 + element / 16));
        out[element] = scale * static_cast<float>(q - 32);
      }
    }
  }
}

using BlockFunction = void (*)(const std::byte* block, float* out);

BlockFunction BlockFunctionFor(DType dtype) {
  switch (dtype) {
    case DType::kQ8_0:
      return Q8_0Block;
    case DType::kQ4_0:
      return Q4_0Block;
    case DType::kQ4_1:
      return Q4_1Block;
    case DType::kQ5_0:
      return Q5_0Block;
    case DType::kQ5_1:
      return Q5_1Block;
    case DType::kQ4_K:
      return Q4_KBlock;
    case DType::kQ5_K:
      return Q5_KBlock;
    case DType::kQ6_K:
      return Q6_KBlock;
    default:
      return nullptr;
  }
}

}  // namespace

void DequantizeRow(DType dtype, const std::byte* source, float* destination, int64_t n) {
  const DTypeInfo& info = InfoOf(dtype);
  SLUICE_CHECK_EQ(n % info.block_elements, 0) << info.name;
  if (dtype == DType::kF32) {
    if (n > 0) std::memcpy(destination, source, static_cast<size_t>(n) * sizeof(float));
  } else if (dtype == DType::kF16) {
    for (int64_t i = 0; i < n; ++i) destination[i] = Half(source + 2 * i);
  } else if (dtype == DType::kBF16) {
    for (int64_t i = 0; i < n; ++i) destination[i] = BFloat16ToFloat(Word(source + 2 * i));
  } else {
    const BlockFunction block_function = BlockFunctionFor(dtype);
    SLUICE_CHECK(block_function != nullptr) << "no values in " << info.name;
    for (int64_t i = 0; i < n / info.block_elements; ++i) {
      block_function(source + i * info.block_bytes, destination + i * info.block_elements);
    }
  }
}

}  // namespace sluice::kernels
