#include "kernels/reference/activation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/check.h"

namespace sluice::kernels {
namespace {

constexpr int64_t kGroup = 32;

struct Q8Group {
  float scale, fine_scale;
  int8_t q[kGroup], fine[kGroup];
};
static_assert(sizeof(Q8Group) == 72);

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

void Refine(std::span<const float> values, Q8Group* group) {
  group->fine_scale = group->scale / 254.0f;
  const float inverse = 254.0f / group->scale;
  for (size_t i = 0; i < values.size(); ++i) {
    const float rest = std::fma(-group->scale, static_cast<float>(group->q[i]), values[i]);
    group->fine[i] = static_cast<int8_t>(std::nearbyint(rest * inverse));
  }
}

void RefineLargeBlocks(std::span<const float> values, std::span<Q8Group> groups) {
  double squares = 0.0;
  for (const Q8Group& group : groups) squares += double{group.scale} * group.scale;
  for (size_t i = 0; i < groups.size(); ++i) {
    const double square = double{groups[i].scale} * groups[i].scale;
    if (!(square * static_cast<double>(groups.size()) > squares)) continue;
    const size_t begin = i * kGroup;
    Refine(values.subspan(begin, std::min<size_t>(kGroup, values.size() - begin)), &groups[i]);
  }
}

}  // namespace

int64_t ReferenceActivationRowBytes(ActivationFormat format, int64_t cols) {
  if (format == ActivationFormat::kF32) return cols * int64_t{sizeof(float)};
  return (cols + kGroup - 1) / kGroup * int64_t{sizeof(Q8Group)};
}

void WriteActivationRow(const ActivationView& out, int64_t row, std::span<const float> values,
                        Refinement refinement) {
  SLUICE_CHECK_EQ(out.row_bytes, ReferenceActivationRowBytes(out.format, out.cols));
  std::byte* destination = out.data + row * out.row_bytes;
  if (out.format == ActivationFormat::kF32) {
    std::memcpy(destination, values.data(), values.size_bytes());
    return;
  }
  std::vector<Q8Group> groups;
  for (size_t begin = 0; begin < values.size(); begin += kGroup) {
    const size_t n = std::min<size_t>(kGroup, values.size() - begin);
    groups.push_back(Quantize(values.subspan(begin, n)));
  }
  if (refinement == Refinement::kLargeBlocks) RefineLargeBlocks(values, groups);
  std::memcpy(destination, groups.data(), groups.size() * sizeof(Q8Group));
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
    for (size_t i = 0; i < n; ++i) {
      values[begin + i] =
          double{group.scale} * group.q[i] + double{group.fine_scale} * group.fine[i];
    }
  }
}

}  // namespace sluice::kernels
