#include "tests/server/support/scripted_executor.h"

#include <utility>

namespace sluice::testing {

void StepGate::Hold() {
  std::lock_guard lock(mutex_);
  held_ = true;
  allowed_ = 0;
}

void StepGate::Allow(int steps) {
  std::lock_guard lock(mutex_);
  held_ = true;
  allowed_ += steps;
  changed_.notify_all();
}

void StepGate::Release() {
  std::lock_guard lock(mutex_);
  held_ = false;
  changed_.notify_all();
}

void StepGate::Pass() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !held_ || allowed_ > 0; });
  if (held_) --allowed_;
}

ScriptedExecutor::ScriptedExecutor(Options options)
    : options_(std::move(options)), slots_(static_cast<size_t>(options_.limits.slots)) {}

absl::StatusOr<engine::StepResult> ScriptedExecutor::Collect() {
  const engine::StepPlan plan = std::move(queue_.front());
  queue_.pop_front();
  if (options_.gate != nullptr && !plan.slices.empty()) options_.gate->Pass();
  if (options_.fails && options_.fails(plan.step)) return engine::Internal("the device is lost");
  for (const engine::SlotStart& start : plan.starts) {
    slots_[static_cast<size_t>(start.slot)] = Slot{{}, 0, start.sampling};
  }
  engine::StepResult result;
  result.step = plan.step;
  for (const engine::PlanSlice& slice : plan.slices) {
    Slot& slot = slots_[static_cast<size_t>(slice.slot)];
    slot.tokens.resize(static_cast<size_t>(slice.first_position));
    for (int32_t i = 0; i < slice.count; ++i) {
      const int32_t token = plan.tokens[static_cast<size_t>(slice.token_begin + i)];
      slot.tokens.push_back(token == engine::kLastSampledToken ? slot.last : token);
    }
    if (slice.output != engine::SliceOutput::kSample) continue;
    Row row;
    row.prompt.assign(slot.tokens.begin(), slot.tokens.end() - slice.generated);
    row.generated = slice.generated;
    row.sampling = slot.sampling;
    const int32_t token = options_.next(row);
    engine::SliceResult sampled;
    sampled.slot = slice.slot;
    sampled.token = token;
    if (token == kNonFinite) sampled.status = engine::SliceStatus::kNonFinite;
    slot.last = token;
    result.slices.push_back(sampled);
  }
  return result;
}

}  // namespace sluice::testing
