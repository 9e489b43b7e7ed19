#include "tests/kernels/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/check.h"
#include "kernels/numeric.h"

namespace sluice::kernels::testing {
namespace {

struct Shape {
  int bits;          // of a quantum
  bool has_minimum;  // value = scale * q + minimum, else scale * (q - 2^(bits-1))
};

Shape ShapeOf(DType dtype) {
  switch (dtype) {
    case DType::kQ8_0:
      return {8, false};
    case DType::kQ4_0:
      return {4, false};
    case DType::kQ4_1:
      return {4, true};
    case DType::kQ5_0:
      return {5, false};
    case DType::kQ5_1:
      return {5, true};
    default:
      SLUICE_CHECK(false) << InfoOf(dtype).name;
      return {};
  }
}

void PutHalf(std::byte*& out, uint16_t half) {
  *out++ = static_cast<std::byte>(half & 0xFF);
  *out++ = static_cast<std::byte>(half >> 8);
}

void QuantizeBlock(DType dtype, std::span<const float> values, std::byte* out) {
  const Shape shape = ShapeOf(dtype);
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const int levels = 1 << shape.bits, middle = shape.has_minimum ? 0 : levels / 2;
  const float span = shape.has_minimum ? (*high - *low) / static_cast<float>(levels - 1)
                                       : std::max(*high, -*low) / static_cast<float>(middle - 1);
  const uint16_t scale_half = FloatToHalf(span);
  const uint16_t minimum_half = shape.has_minimum ? FloatToHalf(*low) : uint16_t{0};
  const float scale = HalfToFloat(scale_half), minimum = HalfToFloat(minimum_half);
  PutHalf(out, scale_half);
  if (shape.has_minimum) PutHalf(out, minimum_half);

  int quanta[32];
  uint32_t fifth_bits = 0;
  for (size_t i = 0; i < 32; ++i) {
    const float q = scale == 0.0f ? 0.0f : std::nearbyint((values[i] - minimum) / scale);
    quanta[i] = std::clamp(static_cast<int>(q) + middle, 0, levels - 1);
    fifth_bits |= static_cast<uint32_t>(quanta[i] >> 4 & 1) << i;
  }
  if (shape.bits == 8) {
    for (const int q : quanta) *out++ = static_cast<std::byte>(q - middle);
    return;
  }
  if (shape.bits == 5) {
    for (int i = 0; i < 4; ++i) *out++ = static_cast<std::byte>(fifth_bits >> (8 * i));
  }
  for (int i = 0; i < 16; ++i) {
    *out++ = static_cast<std::byte>((quanta[i] & 0xF) | ((quanta[i + 16] & 0xF) << 4));
  }
}

}  // namespace

std::vector<std::byte> QuantizeRow(DType dtype, std::span<const float> values) {
  SLUICE_CHECK_EQ(values.size() % 32, 0u);
  const auto block_bytes = static_cast<size_t>(InfoOf(dtype).block_bytes);
  std::vector<std::byte> bytes(values.size() / 32 * block_bytes);
  for (size_t i = 0; i < values.size() / 32; ++i) {
    QuantizeBlock(dtype, values.subspan(i * 32, 32), bytes.data() + i * block_bytes);
  }
  return bytes;
}

}  // namespace sluice::kernels::testing
