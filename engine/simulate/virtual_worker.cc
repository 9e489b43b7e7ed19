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
  SetTime(work, std::max(now, free_at_), &outcome);
  free_at_ = outcome.end;
  outcome.result.spent = std::move(plan);
  outcomes_.push_back(std::move(outcome));
}

// Time and handoff are of the same measured step: a host that is busy slows both.
void VirtualWorker::SetTime(const StepWork& work, Clock::time_point start, Outcome* outcome) {
  const Samples& handoffs = parts_.overheads->handoff;
  double seconds = parts_.time->Seconds(work);
  double handoff = handoffs.mean();
  if (parts_.scatter != nullptr && !parts_.time->starts().empty()) {
    const size_t place = parts_.scatter->PlaceAt(Seconds(start.time_since_epoch()));
    seconds = parts_.time->SecondsLike(place, work);
    if (place < handoffs.size()) handoff = handoffs[place];
  }
  outcome->result.seconds = seconds;
  outcome->end = start + DurationOf(seconds + handoff);
}

VirtualWorker::Outcome VirtualWorker::Collect() {
  Outcome outcome = std::move(outcomes_.front());
  outcomes_.pop_front();
  return outcome;
}

}  // namespace sluice::engine
