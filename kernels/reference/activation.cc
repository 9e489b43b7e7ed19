#include "kernels/reference/activation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/check.h"

namespace sluice::kernels {
namespace {

constexpr int64_t kGroup = 32;

struct Q8Group {
  float scale;
  int8_t q[kGroup];
};
static_assert(sizeof(Q8Group) == 36);

Q8Group Quantize(std::span<const float> values) {
  Q8Group group{};
  float largest = 0.0f;
  for (const float x : values) {
    if (!std::isfinite(x)) {
      group.scale = std::numeric_limits<float>::quiet_NaN();
      return group;
    }
    largest = std::max(largest, std::fabs(x));
  }
  if (largest < 0x1p-100f) return group;
  group.scale = largest / 127.0f;
  const float inverse = 127.0f / largest;
  for (size_t i = 0; i < values.size(); ++i) {
    group.q[i] = static_cast<int8_t>(std::nearbyint(values[i] * inverse));
  }
  return group;
}

}  // namespace

int64_t ReferenceActivationRowBytes(ActivationFormat format, int64_t cols) {
  if (format == ActivationFormat::kF32) return cols * int64_t{sizeof(float)};
  return (cols + kGroup - 1) / kGroup * int64_t{sizeof(Q8Group)};
}

void WriteActivationRow(const ActivationView& out, int64_t row, std::span<const float> values) {
  SLUICE_CHECK_EQ(out.row_bytes, ReferenceActivationRowBytes(out.format, out.cols));
  std::byte* destination = out.data + row * out.row_bytes;
  if (out.format == ActivationFormat::kF32) {
    std::memcpy(destination, values.data(), values.size_bytes());
    return;
  }
  for (size_t begin = 0; begin < values.size(); begin += kGroup) {
    const size_t n = std::min<size_t>(kGroup, values.size() - begin);
    const Q8Group group = Quantize(values.subspan(begin, n));
    std::memcpy(destination, &group, sizeof(group));
    destination += sizeof(group);
  }
}

void ReadActivationRow(const ActivationView& in, int64_t row, std::span<double> values) {
  SLUICE_CHECK_EQ(in.row_bytes, ReferenceActivationRowBytes(in.format, in.cols));
  const std::byte* source = in.data + row * in.row_bytes;
  if (in.format == ActivationFormat::kF32) {
    for (size_t i = 0; i < values.size(); ++i) {
      float value = 0.0f;
      std::memcpy(&value, source + i * sizeof(float), sizeof(float));
      values[i] = value;
    }
    return;
  }
  for (size_t begin = 0; begin < values.size(); begin += kGroup) {
    Q8Group group;
    std::memcpy(&group, source, sizeof(group));
    source += sizeof(group);
    const size_t n = std::min<size_t>(kGroup, values.size() - begin);
    for (size_t i = 0; i < n; ++i) values[begin + i] = double{group.scale} * group.q[i];
  }
}

}  // namespace sluice::kernels
