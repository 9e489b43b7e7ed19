#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/plan/step_plan.h"

namespace sluice::testing {

// Makes plans for a worker as the planning half would: numbers the steps, and gives each slot a run
// of blocks that is its own.
class PlanBuilder {
 public:
  explicit PlanBuilder(const engine::ExecutorLimits& limits) : limits_(limits) {}

  // A slot starts with room for `tokens`, in blocks from `first_block` on.
  PlanBuilder& Start(int32_t slot, const engine::SamplingParams& sampling, int32_t first_block,
                     int32_t tokens, std::vector<int32_t> history = {}, int32_t prompt_tokens = 0) {
    const int32_t blocks = (tokens + limits_.block_size - 1) / limits_.block_size;
    plan_.starts.push_back({slot, sampling, std::move(history), prompt_tokens});
    plan_.appends.push_back({slot, static_cast<int32_t>(plan_.blocks.size()), blocks});
    for (int32_t i = 0; i < blocks; ++i) plan_.blocks.push_back(first_block + i);
    return *this;
  }
  PlanBuilder& Slice(int32_t slot, int32_t first_position, std::span<const int32_t> tokens,
                     engine::SliceOutput output, int32_t generated = 0) {
    plan_.slices.push_back({slot, first_position, static_cast<int32_t>(plan_.tokens.size()),
                            static_cast<int32_t>(tokens.size()), output, generated});
    plan_.tokens.insert(plan_.tokens.end(), tokens.begin(), tokens.end());
    return *this;
  }
  // One more token after the one sampled last.
  PlanBuilder& Next(int32_t slot, int32_t position, int32_t generated) {
    const int32_t last[] = {engine::kLastSampledToken};
    return Slice(slot, position, last, engine::SliceOutput::kSample, generated);
  }
  PlanBuilder& Release(int32_t slot) {
    plan_.releases.push_back(slot);
    return *this;
  }
  engine::StepPlan Take() {
    plan_.step = ++step_;
    return std::exchange(plan_, {});
  }

 private:
  const engine::ExecutorLimits limits_;
  engine::StepPlan plan_;
  uint64_t step_ = 0;
};

}  // namespace sluice::testing
