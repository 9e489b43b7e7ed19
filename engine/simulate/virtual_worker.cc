#include "engine/simulate/virtual_worker.h"

#include <algorithm>
#include <utility>

namespace sluice::engine {

void VirtualWorker::Submit(StepPlan plan, Clock::time_point now) {
  for (const SlotStart& start : plan.starts)
    answer_of_[static_cast<size_t>(start.slot)] = start.sampling.seed;
  Outcome outcome;
  outcome.result.step = plan.step;
  for (const PlanSlice& slice : plan.slices) {
    if (slice.output == SliceOutput::kNone) continue;
    const size_t answer = answer_of_[static_cast<size_t>(slice.slot)];
    outcome.result.slices.push_back(
        {slice.slot, parts_.workload->Token(answer, slice.generated), SliceStatus::kOk});
  }
  const StepWork work = WorkOf(plan);
  outcome.tokens = work.tokens;
  outcome.result.seconds = parts_.time->Seconds(work, parts_.draws);
  const double whole = outcome.result.seconds + parts_.overheads->handoff.Draw(parts_.draws);
  outcome.end = std::max(now, free_at_) + DurationOf(whole);
  free_at_ = outcome.end;
  outcome.result.spent = std::move(plan);
  outcomes_.push_back(std::move(outcome));
}

VirtualWorker::Outcome VirtualWorker::Collect() {
  Outcome outcome = std::move(outcomes_.front());
  outcomes_.pop_front();
  return outcome;
}

}  // namespace sluice::engine
