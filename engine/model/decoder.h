#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "engine/base/status.h"
#include "engine/model/device_memory.h"
#include "engine/model/model_config.h"
#include "engine/model/weights.h"
#include "kernels/backend.h"

namespace sluice::engine {

// The largest step, fixed at start-up.
struct ModelLimits {
  int32_t step_tokens = 0;     // T
  int32_t sampled_max = 0;     // S, rows whose logits are wanted at once
  int32_t context_tokens = 0;  // C
};

// One step's input, in device memory. T tokens.
struct ModelStep {
  kernels::ConstTensorView ids;              // [T] i32
  kernels::AttentionLayout layout;           // tokens == T
  std::span<const kernels::KvLayerView> kv;  // [layers]
};

// A decoder-only transformer over Ops: the one implementation of every family, which differ by
// ModelConfig alone, on every backend, in prefill and decode alike. Owns its buffers; allocates
// nothing after Create. Used by one thread, the backend's.
class Model {
 public:
  // Device bytes that Create will take.
  static size_t BufferBytes(const kernels::Backend& backend, const ModelConfig& config,
                            const WeightPlan& plan, const ModelLimits& limits);
  // `backend` and `weights` must outlive the model. `buffer_bytes` is BufferBytes' answer.
  struct Parts {
    kernels::Backend* backend = nullptr;
    const ModelConfig* config = nullptr;  // copied
    const WeightPlan* plan = nullptr;     // not kept
    const ModelWeights* weights = nullptr;
  };
  // ResourceExhausted when the buffers can't be had.
  static absl::StatusOr<std::unique_ptr<Model>> Create(const Parts& parts,
                                                       const ModelLimits& limits);

  // Runs all layers over the step's tokens, writing their keys and values. The result stays in the
  // model for Head.
  void Forward(const ModelStep& step);
  // Logits [rows, V] of some rows of the last Forward. `rows` is [at most S] i32, in device memory.
  // The view holds until the next call.
  kernels::TensorView Head(kernels::ConstTensorView rows);

  const ModelConfig& config() const { return config_; }
  const ModelLimits& limits() const { return limits_; }

 private:
  // All f32. E width, F ffn width, H and G heads, D head size, V vocabulary, R rotated elements.
  struct Buffers {
    kernels::TensorView x;                   // [T, E] the residual stream
    kernels::TensorView delta;               // [T, E] what the last sublayer adds to it
    kernels::TensorView qkv;                 // [T, (H + 2G) * D]
    kernels::TensorView gate_up;             // [T, 2F]
    std::array<std::byte*, 2> activation{};  // by format: T rows of the widest product's left side
    kernels::TensorView head_x;              // [S, E]
    kernels::TensorView head_delta;          // [S, E]
    kernels::TensorView logits;              // [S, V]
    kernels::TensorView rope;                // [C, R/2, 2]
  };
  struct FormatUse {
    bool f32 = false, q8 = false;
  };
  static Buffers Carve(Carver& carver, const kernels::Backend& backend, const ModelConfig& config,
                       FormatUse use, const ModelLimits& limits);
  static FormatUse UseOf(const kernels::Backend& backend, const WeightPlan& plan);

  Model() = default;
  void FillRopeTable();
  kernels::ActivationView Activation(kernels::ActivationFormat format, int64_t rows, int64_t cols);
  kernels::ActivationFormat FormatOf(const StackedWeight& weight) const;
  // out [rows, N] = the product with every part. `in` has the first part's format; `renormalise`
  // makes it again in another format when the parts differ in that.
  struct NormInput {
    kernels::ConstTensorView x;       // [rows, E]
    kernels::ConstTensorView weight;  // [E]
  };
  void Multiply(kernels::TensorView out, kernels::ActivationView in, const StackedWeight& weight,
                const NormInput* norm = nullptr);

  kernels::Backend* backend_ = nullptr;
  const ModelWeights* weights_ = nullptr;
  ModelConfig config_;
  ModelLimits limits_;
  DeviceMemory memory_;
  Buffers buffers_;
  int64_t rows_ = 0;  // of the last Forward
};

}  // namespace sluice::engine
