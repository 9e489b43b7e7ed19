#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/base/status.h"
#include "engine/exec/kv_memory.h"
#include "engine/exec/step_inputs.h"
#include "engine/model/decoder.h"
#include "engine/plan/step_plan.h"
#include "engine/sample/sampler.h"
#include "engine/sample/staging_area.h"

namespace sluice::engine {

// For tests and measurements: shown every step's logits before the sampling rules change them.
struct LogitsProbe {
  // Also the rows from which nothing is sampled.
  bool every_row = false;
  // `rows` are token rows of the plan, in order; logits is [rows, V] f32 in host memory. Called on
  // the worker's thread, several times a step when there are many rows.
  std::function<void(const StepPlan& plan, std::span<const int32_t> rows, const float* logits)>
      on_logits;
};

// One device: backend, model, KV memory and sampler. Runs one plan after another, each applied in
// the order that plan/step_plan.h documents. Plans are trusted: what contradicts the limits or the
// slots is our bug and CHECKs. Used by one thread at a time; allocates no device memory after
// WarmUp, except for a step with more logit biases than foreseen.
class Worker {
 public:
  struct Parts {
    std::unique_ptr<kernels::Backend> backend;
    ModelConfig config;
    std::unique_ptr<const ModelWeights> weights;  // loaded on that backend
  };
  // Bytes that Create will take besides weights and KV.
  static size_t BufferBytes(const kernels::Backend& backend, const ModelConfig& config,
                            const WeightPlan& plan, const ExecutorLimits& limits);
  // `plan` is what the weights were loaded from; it is not kept. limits.vocabulary is ignored: the
  // model's is taken. ResourceExhausted when memory can't be had.
  static absl::StatusOr<std::unique_ptr<Worker>> Create(Parts parts, const WeightPlan& plan,
                                                        const ExecutorLimits& limits,
                                                        kernels::DType kv_dtype);
  ~Worker();

  const ExecutorLimits& limits() const { return limits_; }
  const kernels::Backend& backend() const { return *backend_; }
  const ModelConfig& config() const { return config_; }

  // Runs a largest plan, a one-token plan and one at the context's end, so that whatever is set up
  // on first use is. Only before the first Run.
  void WarmUp();
  StepResult Run(const StepPlan& plan);

  void SetProbe(LogitsProbe probe) { probe_ = std::move(probe); }

 private:
  Worker(Parts parts, const ExecutorLimits& limits);
  void ApplySlots(const StepPlan& plan);
  void Probe(const StepPlan& plan, kernels::ConstTensorView rows);
  void RunSlices(const StepPlan& plan, StepResult& result);

  std::unique_ptr<kernels::Backend> backend_;  // outlives all that follows
  const ModelConfig config_;
  std::unique_ptr<const ModelWeights> weights_;
  const ExecutorLimits limits_;
  std::unique_ptr<Model> model_;
  KvMemory kv_;
  DeviceMemory sampled_ids_;  // [S] i32
  StagingArea staging_;
  SlotTable slots_;
  Sampler sampler_;
  StepInputs inputs_;
  std::vector<int32_t> host_ids_;   // [S]
  std::vector<float> host_logits_;  // [S, V], only with a probe
  LogitsProbe probe_;
};

}  // namespace sluice::engine
