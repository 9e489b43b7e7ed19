#include "engine/exec/worker.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "kernels/check.h"

namespace sluice::engine {
namespace {

int32_t SampledMax(const ExecutorLimits& limits) {
  return std::min(limits.slots, limits.step_tokens);
}

ModelLimits LimitsOf(const ExecutorLimits& limits) {
  return {limits.step_tokens, SampledMax(limits), limits.context_tokens};
}

size_t StagingMax(const ExecutorLimits& limits, int32_t vocabulary) {
  return StepInputs::StagingBytesMax(limits) +
         Sampler::StagingBytesMax(SampledMax(limits), std::min(limits.context_tokens, vocabulary));
}

size_t SampledIdBytes(const ExecutorLimits& limits) {
  return AlignUp(static_cast<size_t>(SampledMax(limits)) * sizeof(int32_t));
}

kernels::ConstTensorView RowRange(const kernels::ConstTensorView& rows, int64_t begin, int64_t n) {
  return kernels::Vector<kernels::ConstTensorView>(static_cast<const int32_t*>(rows.data) + begin,
                                                   n, kernels::DType::kI32);
}

}  // namespace

size_t Worker::BufferBytes(const kernels::Backend& backend, const ModelConfig& config,
                           const WeightPlan& plan, const ExecutorLimits& limits) {
  return Model::BufferBytes(backend, config, plan, LimitsOf(limits)) + SampledIdBytes(limits) +
         2 * StagingMax(limits, config.vocabulary);  // host and device
}

Worker::Worker(Parts parts, const ExecutorLimits& limits)
    : backend_(std::move(parts.backend)),
      config_(std::move(parts.config)),
      weights_(std::move(parts.weights)),
      limits_(limits),
      staging_(*backend_),
      slots_(limits),
      sampler_(limits.slots, limits.vocabulary),
      host_ids_(static_cast<size_t>(SampledMax(limits))) {
  inputs_.samples.reserve(host_ids_.size());
}

Worker::~Worker() { backend_->Synchronize(); }

absl::StatusOr<std::unique_ptr<Worker>> Worker::Create(Parts parts, const WeightPlan& plan,
                                                       const ExecutorLimits& limits,
                                                       kernels::DType kv_dtype) {
  ExecutorLimits own = limits;
  own.vocabulary = parts.config.vocabulary;
  auto worker = std::unique_ptr<Worker>(new Worker(std::move(parts), own));
  kernels::Backend& backend = *worker->backend_;
  SLUICE_ASSIGN_OR_RETURN(
      worker->model_,
      Model::Create({&backend, &worker->config_, &plan, worker->weights_.get()}, LimitsOf(own)));
  SLUICE_ASSIGN_OR_RETURN(worker->kv_, KvMemory::Create(backend, worker->config_,
                                                        {own.kv_blocks, own.block_size, kv_dtype}));
  SLUICE_ASSIGN_OR_RETURN(worker->sampled_ids_,
                          DeviceMemory::Allocate(backend, SampledIdBytes(own), "sampled tokens"));
  worker->staging_.Reset(StagingMax(own, own.vocabulary));
  return worker;
}

void Worker::ApplySlots(const StepPlan& plan) {
  for (const int32_t slot : plan.releases) {
    slots_.Release(slot);
    sampler_.Release(slot);
  }
  for (const SlotStart& start : plan.starts) {
    slots_.Start(start.slot);
    sampler_.Start(start);
  }
  for (const BlockAppend& append : plan.appends) slots_.Append(append, plan.blocks);
}

StepResult Worker::Run(const StepPlan& plan) {
  const auto begin = std::chrono::steady_clock::now();
  StepResult result;
  result.step = plan.step;
  ApplySlots(plan);
  if (!plan.slices.empty()) {
    std::vector<SampleRow>& samples = inputs_.samples;
    // The sampler's arrays follow the model's in the staging area; both go over in one copy.
    samples.clear();
    for (const PlanSlice& slice : plan.slices) {
      if (slice.output == SliceOutput::kSample) samples.push_back({slice.slot, slice.generated});
    }
    staging_.Reset(StepInputs::StagingBytes(plan, limits_) + sampler_.StagingBytes(samples));
    inputs_.Build(plan, slots_, limits_, staging_);
    if (!plan.copies.empty()) kv_.Copy(backend_->ops(), plan.copies);
    RunSlices(plan, result);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  result.seconds = seconds.count();
  return result;
}

void Worker::RunSlices(const StepPlan& plan, StepResult& result) {
  const std::vector<SampleRow>& samples = inputs_.samples;
  kernels::SamplingBatch batch;
  if (!samples.empty()) batch = sampler_.Prepare(samples, staging_);
  staging_.Send();
  model_->Forward({inputs_.ids, inputs_.layout, kv_.layers()});
  if (probe_.on_logits) Probe(plan, probe_.every_row ? inputs_.every_row : inputs_.sampled_rows);
  if (samples.empty()) {
    backend_->Synchronize();
    return;
  }
  const kernels::TensorView logits = model_->Head(inputs_.sampled_rows);
  const kernels::TensorView ids =
      kernels::Vector(static_cast<void*>(sampled_ids_.data()), batch.rows, kernels::DType::kI32);
  backend_->ops().ApplyLogitRules(logits, batch);
  backend_->ops().Sample(ids, logits, batch);
  const std::span<int32_t> host(host_ids_.data(), samples.size());
  backend_->CopyOut(host.data(), ids.data, host.size_bytes());
  sampler_.Commit(samples, host);
  for (size_t i = 0; i < samples.size(); ++i) {
    const int32_t slot = samples[i].slot;
    // After a row that is not finite there is no token, and a step planned before that was known
    // may name it: any will do, for what it computes is dropped.
    slots_.SetLastToken(slot, std::max(host[i], 0));
    result.slices.push_back(
        {slot, host[i], host[i] < 0 ? SliceStatus::kNonFinite : SliceStatus::kOk});
  }
}

// Shows the probe the logits of some rows, as many at a time as the head takes.
void Worker::Probe(const StepPlan& plan, kernels::ConstTensorView rows) {
  const int64_t vocabulary = config_.vocabulary, batch = SampledMax(limits_);
  host_logits_.resize(static_cast<size_t>(batch * vocabulary));
  std::vector<int32_t> host_rows(static_cast<size_t>(rows.rows()));
  backend_->CopyOut(host_rows.data(), rows.data, host_rows.size() * sizeof(int32_t));
  for (int64_t begin = 0; begin < rows.rows(); begin += batch) {
    const int64_t n = std::min(batch, rows.rows() - begin);
    const kernels::TensorView logits = model_->Head(RowRange(rows, begin, n));
    backend_->CopyOut(host_logits_.data(), logits.data,
                      static_cast<size_t>(n * vocabulary) * sizeof(float));
    probe_.on_logits(
        plan, std::span(host_rows).subspan(static_cast<size_t>(begin), static_cast<size_t>(n)),
        host_logits_.data());
  }
}

}  // namespace sluice::engine
