#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "kernels/check.h"
#include "kernels/numeric.h"
#include "kernels/reference/activation.h"
#include "kernels/reference/reference_ops.h"

namespace sluice::kernels {
namespace {

void StoreElement(std::byte* area, DType dtype, int64_t index, float value) {
  if (dtype == DType::kF32) {
    std::memcpy(area + index * 4, &value, 4);
  } else {
    const uint16_t half = FloatToHalf(value);
    std::memcpy(area + index * 2, &half, 2);
  }
}

float LoadElement(const std::byte* area, DType dtype, int64_t index) {
  if (dtype == DType::kF32) {
    float value = 0.0f;
    std::memcpy(&value, area + index * 4, 4);
    return value;
  }
  uint16_t half = 0;
  std::memcpy(&half, area + index * 2, 2);
  return HalfToFloat(half);
}

// out [D] = in [D] with its first 2 * pair_count elements turned; `rope` is [pair_count, 2]. The
// two may be the same memory.
void Rotate(const float* in, float* out, int64_t head_dim, std::span<const float> rope,
            RopePairs pairs) {
  const auto pair_count = static_cast<int64_t>(rope.size() / 2);
  if (out != in) std::copy(in, in + head_dim, out);
  for (int64_t i = 0; i < pair_count; ++i) {
    const int64_t first = pairs == RopePairs::kAdjacent ? 2 * i : i;
    const int64_t second = pairs == RopePairs::kAdjacent ? 2 * i + 1 : i + pair_count;
    const double cosine = rope[static_cast<size_t>(2 * i)];
    const double sine = rope[static_cast<size_t>(2 * i + 1)];
    const double a = out[first], b = out[second];
    out[first] = static_cast<float>(a * cosine - b * sine);
    out[second] = static_cast<float>(a * sine + b * cosine);
  }
}

void StoreHead(std::byte* area, const KvLayerView& kv, int64_t offset, const float* values) {
  for (int64_t d = 0; d < kv.head_dim; ++d) {
    StoreElement(area, kv.dtype, offset * kv.head_dim + d, values[d]);
  }
}

// Keys and values [context, D] of one kv head of one sequence, gathered from its blocks.
struct Context {
  std::vector<float> keys, values;
};

Context Gather(const KvLayerView& kv, const int32_t* block_table, int64_t kv_head,
               int64_t context) {
  Context result;
  for (int64_t p = 0; p < context; ++p) {
    const int64_t block = block_table[p / kv.block_size];
    SLUICE_CHECK(block >= 0 && block < kv.blocks) << "block " << block << " of " << kv.blocks;
    const int64_t first = p % kv.block_size * kv.head_dim;
    for (int64_t d = 0; d < kv.head_dim; ++d) {
      result.keys.push_back(LoadElement(kv.KeyArea(block, kv_head), kv.dtype, first + d));
      result.values.push_back(LoadElement(kv.ValueArea(block, kv_head), kv.dtype, first + d));
    }
  }
  return result;
}

// One query row of one head over the first `length` positions. q and out are [D].
void Attend(std::span<const float> q, const Context& context, int64_t length, double scale,
            float* out) {
  const size_t dim = q.size();
  std::vector<double> weights(static_cast<size_t>(length));
  double largest = -std::numeric_limits<double>::infinity();
  for (size_t p = 0; p < weights.size(); ++p) {
    const float* key = context.keys.data() + p * dim;
    double score = 0.0;
    for (size_t d = 0; d < dim; ++d) score += double{q[d]} * key[d];
    weights[p] = score * scale;
    largest = std::max(largest, weights[p]);
  }
  std::vector<double> sums(dim, 0.0);
  double total = 0.0;  // NaN if there is a NaN or +infinity among the scores
  for (size_t p = 0; p < weights.size(); ++p) {
    const float* value = context.values.data() + p * dim;
    const double weight = std::exp(weights[p] - largest);
    total += weight;
    for (size_t d = 0; d < dim; ++d) sums[d] += weight * value[d];
  }
  for (size_t d = 0; d < dim; ++d) out[d] = static_cast<float>(sums[d] / total);
}

}  // namespace

void ReferenceOps::DoRopeAndWriteKv(TensorView q, const KvLayerView& kv, ConstTensorView k,
                                    ConstTensorView v, ConstTensorView rope, RopePairs pairs,
                                    const AttentionLayout& layout) {
  const int64_t head_dim = kv.head_dim;
  std::vector<float> rotated(static_cast<size_t>(head_dim));
  for (int64_t t = 0; t < layout.tokens; ++t) {
    const int64_t position = layout.positions[t];
    const int64_t slot = layout.kv_slots[t];
    SLUICE_CHECK(position >= 0 && position < rope.rows()) << "position " << position;
    SLUICE_CHECK(slot >= 0 && slot < kv.blocks * kv.block_size) << "slot " << slot;
    const std::span<const float> angles(Row(rope, position), static_cast<size_t>(rope.cols()));
    for (int64_t h = 0; h < q.dim(1); ++h) {
      float* head = Row(q, t) + h * head_dim;
      Rotate(head, head, head_dim, angles, pairs);
    }
    const int64_t block = slot / kv.block_size, offset = slot % kv.block_size;
    for (int64_t g = 0; g < kv.kv_heads; ++g) {
      Rotate(Row(k, t) + g * head_dim, rotated.data(), head_dim, angles, pairs);
      StoreHead(kv.KeyArea(block, g), kv, offset, rotated.data());
      StoreHead(kv.ValueArea(block, g), kv, offset, Row(v, t) + g * head_dim);
    }
  }
}

void ReferenceOps::DoPagedAttention(ActivationView out, ConstTensorView q, const KvLayerView& kv,
                                    const AttentionLayout& layout, float scale) {
  const int64_t heads = q.dim(1), group = heads / kv.kv_heads;
  const auto head_dim = static_cast<size_t>(kv.head_dim);
  std::vector<float> result(static_cast<size_t>(layout.query_max * q.cols()));
  for (int64_t b = 0; b < layout.sequences; ++b) {
    const int64_t first = layout.query_begin[b], end = layout.query_begin[b + 1];
    if (first == end) continue;
    SLUICE_CHECK_LE(end - first, layout.query_max);
    SLUICE_CHECK_LT(layout.positions[end - 1], layout.context_max);
    for (int64_t g = 0; g < kv.kv_heads; ++g) {
      const Context context = Gather(kv, layout.block_table + b * layout.blocks_max, g,
                                     int64_t{layout.positions[end - 1]} + 1);
      for (int64_t t = first; t < end; ++t) {
        for (int64_t h = g * group; h < (g + 1) * group; ++h) {
          const std::span<const float> query(Row(q, t) + h * kv.head_dim, head_dim);
          Attend(query, context, int64_t{layout.positions[t]} + 1, scale,
                 result.data() + (t - first) * q.cols() + h * kv.head_dim);
        }
      }
    }
    for (int64_t t = first; t < end; ++t) {
      const float* row = result.data() + (t - first) * q.cols();
      WriteActivationRow(out, t, {row, static_cast<size_t>(q.cols())}, Refinement::kNone);
    }
  }
}

void ReferenceOps::DoCopyBlocks(const KvLayerView& kv, std::span<const BlockCopy> copies) {
  for (const BlockCopy& copy : copies) {
    std::memcpy(kv.base + copy.to * kv.block_bytes, kv.base + copy.from * kv.block_bytes,
                static_cast<size_t>(kv.block_bytes));
  }
}

}  // namespace sluice::kernels
