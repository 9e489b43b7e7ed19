#include <algorithm>
#include <numeric>

#include "engine/exec/worker.h"
#include "kernels/check.h"

namespace sluice::engine {
namespace {

// Parameters that take every path of the sampler.
SamplingParams EveryRule() {
  SamplingParams params;
  params.temperature = 0.7f;
  params.top_k = 40;
  params.top_p = 0.9f;
  params.min_p = 0.01f;
  params.presence_penalty = params.frequency_penalty = 0.5f;
  params.repetition_penalty = 1.1f;
  params.seed = 1;
  params.logit_bias = {{0, 1.0f}};
  return params;
}

// `slots` sequences that share out as many tokens as the limits allow, each in blocks of its own,
// one after the other: fresh memory is backed by real pages when it is first used.
StepPlan LargestPlan(const ExecutorLimits& limits) {
  StepPlan plan;
  const int32_t slots = std::min({limits.slots, limits.step_tokens, limits.kv_blocks});
  const int32_t blocks_each = limits.kv_blocks / slots;
  const int64_t room =
      std::min<int64_t>(int64_t{blocks_each} * limits.block_size, limits.context_tokens);
  const auto count = static_cast<int32_t>(std::min<int64_t>(limits.step_tokens / slots, room));
  for (int32_t slot = 0; slot < slots; ++slot) {
    const int32_t blocks = (count + limits.block_size - 1) / limits.block_size;
    plan.starts.push_back({slot, EveryRule(), {0}, 1});
    plan.appends.push_back({slot, static_cast<int32_t>(plan.blocks.size()), blocks});
    for (int32_t i = 0; i < blocks; ++i) plan.blocks.push_back(slot * blocks + i);
    plan.slices.push_back(
        {slot, 0, static_cast<int32_t>(plan.tokens.size()), count, SliceOutput::kSample, 0});
    plan.tokens.resize(plan.tokens.size() + static_cast<size_t>(count), 0);
  }
  return plan;
}

// One token at `position`. The context before it may be anything: block 0 stands for all of it.
StepPlan OneToken(const ExecutorLimits& limits, int32_t position) {
  SamplingParams greedy;
  greedy.temperature = 0;
  StepPlan plan;
  plan.blocks.assign(static_cast<size_t>(position / limits.block_size + 1), 0);
  plan.starts.push_back({0, greedy, {}, 0});
  plan.appends.push_back({0, 0, static_cast<int32_t>(plan.blocks.size())});
  plan.slices.push_back({0, position, 0, 1, SliceOutput::kSample, 0});
  plan.tokens = {0};
  return plan;
}

}  // namespace

void Worker::WarmUp() {
  for (const StepPlan& plan : {LargestPlan(limits_), OneToken(limits_, 0),
                               OneToken(limits_, limits_.context_tokens - 1)}) {
    Run(plan);
    StepPlan end;
    for (const SlotStart& start : plan.starts) end.releases.push_back(start.slot);
    Run(end);
  }
}

}  // namespace sluice::engine
