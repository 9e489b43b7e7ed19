#include "engine/model/decoder.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/check.h"

namespace sluice::engine {
namespace {

using kernels::ActivationFormat;
using kernels::ActivationView;
using kernels::ConstTensorView;
using kernels::TensorView;

TensorView FirstRows(TensorView v, int64_t rows) {
  v.shape[0] = rows;
  return v;
}

// Columns [begin, begin + heads * head_dim) of a float matrix, seen as heads.
TensorView HeadColumns(const TensorView& m, int64_t begin, int64_t heads, int64_t head_dim) {
  return kernels::Heads(static_cast<float*>(m.data) + begin, m.rows(), heads, head_dim, m.stride);
}

int64_t WidestInput(const ModelConfig& config) {
  return std::max(
      {int64_t{config.width}, int64_t{config.heads} * config.head_dim, int64_t{config.ffn_width}});
}

}  // namespace

Model::FormatUse Model::UseOf(const kernels::Backend& backend, const WeightPlan& plan) {
  return {plan.Uses(backend, ActivationFormat::kF32), plan.Uses(backend, ActivationFormat::kQ8)};
}

Model::Buffers Model::Carve(Carver& carver, const kernels::Backend& backend,
                            const ModelConfig& config, FormatUse use, const ModelLimits& limits) {
  const auto matrix = [&carver](int64_t rows, int64_t cols) {
    std::byte* data = carver.Take(static_cast<size_t>(rows * cols) * sizeof(float));
    return kernels::Matrix(static_cast<void*>(data), rows, cols);
  };
  const int64_t t = limits.step_tokens, s = limits.sampled_max;
  const int64_t heads_and_kv = config.heads + 2 * config.kv_heads;
  Buffers b;
  b.x = matrix(t, config.width);
  b.delta = matrix(t, config.width);
  b.qkv = matrix(t, heads_and_kv * config.head_dim);
  b.gate_up = matrix(t, 2 * int64_t{config.ffn_width});
  b.head_x = matrix(s, config.width);
  b.head_delta = matrix(s, config.width);
  b.logits = matrix(s, config.vocabulary);
  const int64_t pairs = config.rope_dims / 2;
  const TensorView rope = matrix(limits.context_tokens, pairs * 2);
  b.rope = kernels::Heads(rope.data, limits.context_tokens, pairs, 2);
  for (const auto format : {ActivationFormat::kF32, ActivationFormat::kQ8}) {
    if (!(format == ActivationFormat::kF32 ? use.f32 : use.q8)) continue;
    const int64_t bytes = std::max(t, s) * backend.ActivationRowBytes(format, WidestInput(config));
    b.activation[static_cast<size_t>(format)] = carver.Take(static_cast<size_t>(bytes));
  }
  return b;
}

size_t Model::BufferBytes(const kernels::Backend& backend, const ModelConfig& config,
                          const WeightPlan& plan, const ModelLimits& limits) {
  Carver carver(nullptr);
  Carve(carver, backend, config, UseOf(backend, plan), limits);
  return carver.used();
}

absl::StatusOr<std::unique_ptr<Model>> Model::Create(const Parts& parts,
                                                     const ModelLimits& limits) {
  SLUICE_CHECK(limits.step_tokens > 0 && limits.sampled_max > 0 && limits.context_tokens > 0);
  auto model = std::unique_ptr<Model>(new Model);
  model->backend_ = parts.backend;
  model->weights_ = parts.weights;
  model->config_ = *parts.config;
  model->limits_ = limits;
  SLUICE_ASSIGN_OR_RETURN(
      model->memory_,
      DeviceMemory::Allocate(*parts.backend,
                             BufferBytes(*parts.backend, *parts.config, *parts.plan, limits),
                             "activations"));
  Carver carver(model->memory_.data());
  model->buffers_ =
      Carve(carver, *parts.backend, *parts.config, UseOf(*parts.backend, *parts.plan), limits);
  model->FillRopeTable();
  return model;
}

// Angles in double, stored as float.
void Model::FillRopeTable() {
  const int64_t pairs = config_.rope_dims / 2;
  std::vector<double> turn(static_cast<size_t>(pairs));  // radians a position
  for (size_t i = 0; i < turn.size(); ++i) {
    turn[i] = std::pow(config_.rope_base, -2.0 * static_cast<double>(i) / config_.rope_dims) /
              config_.rope_scale;
    if (!weights_->rope_divisors.empty()) turn[i] /= double{weights_->rope_divisors[i]};
  }
  std::vector<float> row(static_cast<size_t>(2 * pairs));
  for (int64_t p = 0; p < limits_.context_tokens; ++p) {
    for (size_t i = 0; i < turn.size(); ++i) {
      const double angle = static_cast<double>(p) * turn[i];
      row[2 * i] = static_cast<float>(std::cos(angle));
      row[2 * i + 1] = static_cast<float>(std::sin(angle));
    }
    backend_->CopyIn(static_cast<float*>(buffers_.rope.data) + p * 2 * pairs, row.data(),
                     row.size() * sizeof(float));
  }
  backend_->Synchronize();
}

ActivationView Model::Activation(ActivationFormat format, int64_t rows, int64_t cols) {
  std::byte* data = buffers_.activation[static_cast<size_t>(format)];
  SLUICE_CHECK(data != nullptr) << "no buffer for this format";
  return {data, format, rows, cols, backend_->ActivationRowBytes(format, cols)};
}

ActivationFormat Model::FormatOf(const StackedWeight& weight) const {
  return backend_->ActivationFormatFor(weight.parts[0].weight.dtype);
}

void Model::Multiply(TensorView out, ActivationView in, const StackedWeight& weight,
                     const NormInput* norm) {
  for (const StackedWeight::Part& part : weight.parts) {
    const ActivationFormat format = backend_->ActivationFormatFor(part.weight.dtype);
    if (format != in.format) {
      SLUICE_CHECK(norm != nullptr) << "the parts of this weight want different formats";
      in = Activation(format, in.rows, in.cols);
      backend_->ops().RmsNorm(in, norm->x, norm->weight, config_.norm_epsilon);
    }
    const TensorView columns =
        kernels::Matrix(static_cast<void*>(static_cast<float*>(out.data) + part.column), out.rows(),
                        part.weight.rows, out.stride);
    backend_->ops().MatMul(columns, in, part.weight);
  }
}

void Model::Forward(const ModelStep& step) {
  const int64_t t = step.layout.tokens;
  SLUICE_CHECK(t > 0 && t <= limits_.step_tokens) << t << " tokens";
  SLUICE_CHECK_EQ(step.kv.size(), weights_->layers.size());
  rows_ = t;
  kernels::Ops& ops = backend_->ops();
  const int64_t h = config_.heads, g = config_.kv_heads, d = config_.head_dim;
  const float eps = config_.norm_epsilon;
  const TensorView x = FirstRows(buffers_.x, t), delta = FirstRows(buffers_.delta, t);
  const TensorView qkv = FirstRows(buffers_.qkv, t), gate_up = FirstRows(buffers_.gate_up, t);
  const TensorView q = HeadColumns(qkv, 0, h, d), k = HeadColumns(qkv, h * d, g, d),
                   v = HeadColumns(qkv, (h + g) * d, g, d);

  ops.Embed(x, weights_->embedding, step.ids);
  for (size_t l = 0; l < weights_->layers.size(); ++l) {
    const LayerWeights& layer = weights_->layers[l];
    const NormInput attention_norm{x, layer.attention_norm};
    const ActivationView normed = Activation(FormatOf(layer.qkv), t, config_.width);
    if (l == 0) {
      ops.RmsNorm(normed, x, layer.attention_norm, eps);
    } else {
      ops.AddRmsNorm(x, normed, delta, layer.attention_norm, eps);
    }
    Multiply(qkv, normed, layer.qkv, &attention_norm);
    ops.RopeAndWriteKv(q, step.kv[l], k, v, buffers_.rope, config_.rope_pairs, step.layout);
    const ActivationView attended = Activation(FormatOf(layer.attention_out), t, h * d);
    ops.PagedAttention(attended, q, step.kv[l], step.layout, config_.attention_scale);
    Multiply(delta, attended, layer.attention_out);

    const NormInput ffn_norm{x, layer.ffn_norm};
    const ActivationView ffn_in = Activation(FormatOf(layer.gate_up), t, config_.width);
    ops.AddRmsNorm(x, ffn_in, delta, layer.ffn_norm, eps);
    Multiply(gate_up, ffn_in, layer.gate_up, &ffn_norm);
    const ActivationView gated = Activation(FormatOf(layer.down), t, config_.ffn_width);
    ops.GatedActivation(gated, gate_up, config_.gate);
    Multiply(delta, gated, layer.down);
  }
}

TensorView Model::Head(ConstTensorView rows) {
  const int64_t s = rows.rows();
  SLUICE_CHECK(s > 0 && s <= limits_.sampled_max) << s << " rows";
  kernels::Ops& ops = backend_->ops();
  const TensorView x = FirstRows(buffers_.head_x, s), delta = FirstRows(buffers_.head_delta, s);
  const TensorView logits = FirstRows(buffers_.logits, s);
  ops.GatherRows(x, FirstRows(buffers_.x, rows_), rows);
  ops.GatherRows(delta, FirstRows(buffers_.delta, rows_), rows);
  const ActivationView normed = Activation(FormatOf(weights_->head), s, config_.width);
  ops.AddRmsNorm(x, normed, delta, weights_->final_norm, config_.norm_epsilon);
  Multiply(logits, normed, weights_->head);
  return logits;
}

}  // namespace sluice::engine
