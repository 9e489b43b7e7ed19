#include "tests/kernels/attention_rig.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/numeric.h"
#include "tests/kernels/oracle.h"

namespace sluice::kernels::testing {
namespace {

constexpr int32_t kLayers = 2;
constexpr int32_t kSpareBlocks = 3;
constexpr int64_t kRowPadding = 5;  // floats after each row of q, k and v

int32_t BlocksOf(int32_t positions, int32_t block_size) {
  return (positions + block_size - 1) / block_size;
}

}  // namespace

SequenceData RandomSequence(Random& random, const AttentionConfig& config, int32_t positions) {
  SequenceData s;
  s.positions = positions;
  s.q = random.Normals(positions * config.out_cols());
  s.k = random.Normals(int64_t{positions} * config.kv_heads * config.head_dim);
  s.v = random.Normals(int64_t{positions} * config.kv_heads * config.head_dim);
  return s;
}

AttentionRig::AttentionRig(Device& device, const AttentionConfig& config,
                           const std::vector<SequenceData>& sequences, uint64_t block_seed)
    : device_(device), config_(config), sequences_(sequences) {
  int32_t total = kSpareBlocks, longest = 1;
  for (const SequenceData& s : sequences) {
    total += BlocksOf(s.positions, config.block_size);
    longest = std::max(longest, s.positions);
  }
  std::vector<int32_t> ids(static_cast<size_t>(total));
  std::iota(ids.begin(), ids.end(), 0);
  Random random(block_seed);
  random.Shuffle(ids);
  auto next = ids.begin();
  for (const SequenceData& s : sequences) {
    const int32_t n = BlocksOf(s.positions, config.block_size);
    blocks_.emplace_back(next, next + n);
    next += n;
  }

  kv_.dtype = config.kv_dtype;
  kv_.block_size = config.block_size;
  kv_.kv_heads = config.kv_heads;
  kv_.head_dim = config.head_dim;
  kv_.blocks = total;
  layer_bytes_ = 2 * config.kv_heads * kv_.AreaBytes();
  kv_.block_bytes = kLayers * layer_bytes_;
  kv_.layer_offset = layer_bytes_;  // the second layer
  kv_.base = device.Upload(
      std::vector<std::byte>(static_cast<size_t>(total * kv_.block_bytes), std::byte{0xFF}));
  rope_ =
      Heads(device.Upload(RopeTable(longest, config.rope_dim)), longest, config.rope_dim / 2, 2);
}

AttentionLayout AttentionRig::UploadLayout(const std::vector<Part>& parts) {
  AttentionLayout layout;
  std::vector<int32_t> begin{0}, first, positions, slots, table;
  for (const Part& part : parts) {
    const auto needed = static_cast<int32_t>(blocks_[static_cast<size_t>(part.sequence)].size());
    layout.blocks_max = std::max(layout.blocks_max, needed + 2);
  }
  for (const Part& part : parts) {
    const std::vector<int32_t>& blocks = blocks_[static_cast<size_t>(part.sequence)];
    first.push_back(part.first);
    for (int32_t p = part.first; p < part.first + part.count; ++p) {
      positions.push_back(p);
      slots.push_back(blocks[static_cast<size_t>(p / config_.block_size)] * config_.block_size +
                      p % config_.block_size);
    }
    begin.push_back(static_cast<int32_t>(positions.size()));
    const auto used = static_cast<size_t>(BlocksOf(part.first + part.count, config_.block_size));
    for (size_t i = 0; i < static_cast<size_t>(layout.blocks_max); ++i) {
      table.push_back(i < used ? blocks[i] : 0x7FFF0000);
    }
    layout.query_max = std::max(layout.query_max, part.count);
    layout.context_max = std::max(layout.context_max, part.first + part.count);
  }
  layout.sequences = static_cast<int32_t>(parts.size());
  layout.tokens = static_cast<int32_t>(positions.size());
  layout.query_begin = device_.Upload(begin);
  layout.first_position = device_.Upload(first);
  layout.positions = device_.Upload(positions);
  layout.kv_slots = device_.Upload(slots);
  layout.block_table = device_.Upload(table);
  return layout;
}

std::vector<float> AttentionRig::Step(const std::vector<Part>& parts) {
  const AttentionLayout layout = UploadLayout(parts);
  const int64_t q_cols = config_.out_cols(), kv_cols = int64_t{config_.kv_heads} * config_.head_dim;
  const int64_t stride = q_cols + 2 * kv_cols + kRowPadding;
  std::vector<float> qkv;  // one matrix, as the fused projection gives it
  for (const Part& part : parts) {
    const SequenceData& s = sequences_[static_cast<size_t>(part.sequence)];
    for (int32_t p = part.first; p < part.first + part.count; ++p) {
      qkv.insert(qkv.end(), s.q.begin() + p * q_cols, s.q.begin() + (p + 1) * q_cols);
      qkv.insert(qkv.end(), s.k.begin() + p * kv_cols, s.k.begin() + (p + 1) * kv_cols);
      qkv.insert(qkv.end(), s.v.begin() + p * kv_cols, s.v.begin() + (p + 1) * kv_cols);
      qkv.insert(qkv.end(), kRowPadding, std::numeric_limits<float>::quiet_NaN());
    }
  }
  float* data = device_.Upload(qkv);
  const int64_t rows = layout.tokens;
  const TensorView q = Heads(data, rows, config_.heads(), config_.head_dim, stride);
  const TensorView k = Heads(data + q_cols, rows, config_.kv_heads, config_.head_dim, stride);
  const TensorView v =
      Heads(data + q_cols + kv_cols, rows, config_.kv_heads, config_.head_dim, stride);
  device_.ops().RopeAndWriteKv(q, kv_, k, v, rope_, config_.pairs, layout);
  const ActivationView out = device_.NewActivation(config_.out, rows, q_cols);
  const float scale = 1.0f / std::sqrt(static_cast<float>(config_.head_dim));
  device_.ops().PagedAttention(out, q, kv_, layout, scale);

  const auto rotated = device_.Download<float>(data, rows * stride);
  last_q_.clear();
  for (int64_t t = 0; t < rows; ++t) {
    last_q_.insert(last_q_.end(), rotated.begin() + t * stride,
                   rotated.begin() + t * stride + q_cols);
  }
  return device_.ReadActivation(out);
}

bool AttentionRig::OtherLayerUntouched() {
  for (int64_t block = 0; block < kv_.blocks; ++block) {
    const auto bytes =
        device_.Download<std::byte>(kv_.base + block * kv_.block_bytes, layer_bytes_);
    if (!std::all_of(bytes.begin(), bytes.end(),
                     [](std::byte b) { return b == std::byte{0xFF}; })) {
      return false;
    }
  }
  return true;
}

std::vector<float> OracleAttention(const AttentionConfig& config, const SequenceData& sequence,
                                   int32_t first, int32_t count) {
  const auto dim = static_cast<size_t>(config.head_dim);
  const auto head_at = [&](const std::vector<float>& values, int32_t p, int32_t heads, int32_t h) {
    return std::span(values).subspan(
        (static_cast<size_t>(p) * static_cast<size_t>(heads) + static_cast<size_t>(h)) * dim, dim);
  };
  const auto stored = [&](std::vector<float> values) {
    if (config.kv_dtype == DType::kF16) {
      for (float& value : values) value = HalfToFloat(FloatToHalf(value));
    }
    return values;
  };
  std::vector<float> result(static_cast<size_t>(count) * static_cast<size_t>(config.out_cols()));
  for (int32_t h = 0; h < config.heads(); ++h) {
    const int32_t g = h / config.group;
    std::vector<std::vector<float>> keys, values;
    for (int32_t p = 0; p < first + count; ++p) {
      keys.push_back(stored(OracleRotate(head_at(sequence.k, p, config.kv_heads, g), p,
                                         config.rope_dim, config.pairs)));
      const auto v = head_at(sequence.v, p, config.kv_heads, g);
      values.push_back(stored({v.begin(), v.end()}));
    }
    for (int32_t t = 0; t < count; ++t) {
      const auto q = OracleRotate(head_at(sequence.q, first + t, config.heads(), h), first + t,
                                  config.rope_dim, config.pairs);
      std::vector<double> sums(dim, 0.0);
      double total = 0.0;
      for (size_t p = 0; p <= static_cast<size_t>(first + t); ++p) {
        double score = 0.0;
        for (size_t d = 0; d < dim; ++d) score += double{q[d]} * keys[p][d];
        const double weight = std::exp(score / std::sqrt(static_cast<double>(config.head_dim)));
        total += weight;
        for (size_t d = 0; d < dim; ++d) sums[d] += weight * values[p][d];
      }
      float* out =
          result.data() + static_cast<int64_t>(t) * config.out_cols() + h * config.head_dim;
      for (size_t d = 0; d < dim; ++d) out[d] = static_cast<float>(sums[d] / total);
    }
  }
  return result;
}

}  // namespace sluice::kernels::testing
