#include "tests/kernels/random_data.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/numeric.h"

namespace sluice::kernels::testing {
namespace {

void StoreHalf(std::byte* destination, float value) {
  const uint16_t half = FloatToHalf(value);
  std::memcpy(destination, &half, 2);
}

// Where a block keeps its halves; -1: it has no second one.
struct HalfOffsets {
  int scale = 0, minimum = -1;
};
HalfOffsets OffsetsOf(DType dtype) {
  switch (dtype) {
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K:
      return {0, 2};
    case DType::kQ6_K:
      return {208, -1};
    default:
      return {0, -1};
  }
}

// So that weights have a deviation of about 1 / sqrt(cols) times a few, as in a model.
float TypicalScale(DType dtype) {
  switch (dtype) {
    case DType::kQ8_0:
      return 1e-3f;
    case DType::kQ4_K:
    case DType::kQ5_K:
      return 3e-4f;
    case DType::kQ6_K:
      return 5e-5f;
    default:
      return 1e-2f;
  }
}

}  // namespace

float Random::Normal() {
  double sum = 0.0;
  for (int i = 0; i < 4; ++i) sum += Uniform();
  return static_cast<float>((sum - 2.0) * std::sqrt(3.0));
}

std::vector<float> Random::Normals(int64_t n) {
  std::vector<float> values(static_cast<size_t>(n));
  for (float& value : values) value = Normal();
  return values;
}

std::vector<float> RandomActivations(Random& random, int64_t rows, int64_t cols) {
  std::vector<float> values = random.Normals(rows * cols);
  const auto width = static_cast<size_t>(cols);
  for (size_t row = 0; row < values.size(); row += width) {
    for (size_t begin = 0; begin < width; begin += 32) {
      const size_t end = std::min(begin + 32, width);
      float largest = 0.0f;
      for (size_t i = begin; i < end; ++i) largest = std::max(largest, std::fabs(values[row + i]));
      for (size_t i = begin; i < end; ++i) {
        const double q = values[row + i] * (127.0 / largest);
        if (std::fabs(q - std::floor(q) - 0.5) < 1e-3) values[row + i] *= 0.5f;
      }
    }
  }
  return values;
}

RawWeight RandomWeight(Random& random, DType dtype, int64_t rows, int64_t cols) {
  const DTypeInfo& info = InfoOf(dtype);
  RawWeight w{dtype, rows, cols, {}};
  w.bytes.resize(static_cast<size_t>(rows * BytesOf(dtype, cols)));
  const auto element_bytes = static_cast<size_t>(info.block_bytes);
  for (size_t at = 0; at < w.bytes.size(); at += element_bytes) {
    std::byte* block = w.bytes.data() + at;
    if (info.block_elements == 1) {
      const float value = random.Normal() * 0.05f;
      const uint16_t narrow = dtype == DType::kF16 ? FloatToHalf(value) : FloatToBFloat16(value);
      std::memcpy(block, dtype == DType::kF32 ? static_cast<const void*>(&value) : &narrow,
                  element_bytes);
      continue;
    }
    for (size_t i = 0; i < element_bytes; ++i) block[i] = static_cast<std::byte>(random.Bits());
    const HalfOffsets offsets = OffsetsOf(dtype);
    const float scale = TypicalScale(dtype) * random.Uniform(0.5, 1.5);
    StoreHalf(block + offsets.scale, random.Below(4) == 0 ? -scale : scale);
    if (offsets.minimum < 0) continue;
    // Q4_1 and Q5_1 add their minimum, the K formats subtract it: in both cases about the mean.
    const bool adds = dtype == DType::kQ4_1 || dtype == DType::kQ5_1;
    StoreHalf(block + offsets.minimum, scale * (adds ? -8.0f : 4.0f) * random.Uniform(0.5, 1.5));
  }
  return w;
}

RawWeight ExtremeWeight(DType dtype, int64_t rows, int64_t cols, bool upper_end) {
  RawWeight w{dtype, rows, cols, {}};
  // All bits set is the upper end of unsigned quanta, but -1 of Q8_0 and of the scales of Q6_K.
  w.bytes.resize(static_cast<size_t>(rows * BytesOf(dtype, cols)),
                 upper_end ? std::byte{0xFF} : std::byte{0});
  const DTypeInfo& info = InfoOf(dtype);
  const HalfOffsets offsets = OffsetsOf(dtype);
  for (size_t at = 0; at < w.bytes.size(); at += static_cast<size_t>(info.block_bytes)) {
    std::byte* block = w.bytes.data() + at;
    if (dtype == DType::kQ8_0) {
      std::fill(block + 2, block + 34, upper_end ? std::byte{127} : std::byte{0x80});
    }
    if (dtype == DType::kQ6_K) std::fill(block + 192, block + 208, std::byte{0x80});
    StoreHalf(block + offsets.scale, TypicalScale(dtype));
    if (offsets.minimum >= 0) StoreHalf(block + offsets.minimum, TypicalScale(dtype));
  }
  return w;
}

}  // namespace sluice::kernels::testing
