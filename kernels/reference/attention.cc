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

// One query head over its context: out [D].
class HeadAttention {
 public:
  HeadAttention(const KvLayerView& kv, const int32_t* block_table, int64_t kv_head)
      : kv_(kv), block_table_(block_table), kv_head_(kv_head) {}

  void Run(const float* q, int64_t context, double scale, float* out) {
    scores_.resize(static_cast<size_t>(context));
    double largest = -std::numeric_limits<double>::infinity();
    for (int64_t p = 0; p < context; ++p) {
      double score = 0.0;
      for (int64_t d = 0; d < kv_.head_dim; ++d) score += q[d] * double{Key(p, d)};
      score *= scale;
      scores_[static_cast<size_t>(p)] = score;
      largest = std::max(largest, score);
    }
    double total = 0.0;
    for (double& score : scores_) {  // a NaN or +infinity among the scores makes the total NaN
      score = std::exp(score - largest);
      total += score;
    }
    for (int64_t d = 0; d < kv_.head_dim; ++d) {
      double sum = 0.0;
      for (int64_t p = 0; p < context; ++p) {
        sum += scores_[static_cast<size_t>(p)] * double{Value(p, d)};
      }
      out[d] = static_cast<float>(sum / total);
    }
  }

 private:
  int64_t Block(int64_t position) const { return block_table_[position / kv_.block_size]; }
  int64_t Index(int64_t position, int64_t d) const {
    return position % kv_.block_size * kv_.head_dim + d;
  }
  float Key(int64_t position, int64_t d) const {
    return LoadElement(kv_.KeyArea(Block(position), kv_head_), kv_.dtype, Index(position, d));
  }
  float Value(int64_t position, int64_t d) const {
    return LoadElement(kv_.ValueArea(Block(position), kv_head_), kv_.dtype, Index(position, d));
  }

  const KvLayerView& kv_;
  const int32_t* block_table_;
  const int64_t kv_head_;
  std::vector<double> scores_;
};

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
  std::vector<float> result(static_cast<size_t>(q.cols()));
  for (int64_t b = 0; b < layout.sequences; ++b) {
    const int32_t* block_table = layout.block_table + b * layout.blocks_max;
    for (int64_t t = layout.query_begin[b]; t < layout.query_begin[b + 1]; ++t) {
      const int64_t context = int64_t{layout.positions[t]} + 1;
      SLUICE_CHECK_LE(context, layout.context_max);
      for (int64_t h = 0; h < heads; ++h) {
        HeadAttention attention(kv, block_table, h / group);
        attention.Run(Row(q, t) + h * kv.head_dim, context, scale, result.data() + h * kv.head_dim);
      }
      WriteActivationRow(out, t, result);
    }
  }
}

}  // namespace sluice::kernels
