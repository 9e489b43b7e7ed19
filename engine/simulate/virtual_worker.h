#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "engine/plan/step_plan.h"
#include "engine/request.h"
#include "engine/simulate/recording.h"
#include "engine/simulate/samples.h"
#include "engine/simulate/step_time.h"
#include "engine/simulate/workload.h"

namespace sluice::engine {

// A device that computes nothing: steps take the time that they would take, one after the other,
// and give the tokens that the workload says.
class VirtualWorker {
 public:
  // All outlive the worker; `scatter` may be null: every step then takes its mean.
  struct Parts {
    const StepTime* time = nullptr;
    const Overheads* overheads = nullptr;
    const Workload* workload = nullptr;
    ScatterWalk* scatter = nullptr;
  };
  VirtualWorker(const Parts& parts, int32_t slots)
      : parts_(parts), answer_of_(static_cast<size_t>(slots)) {}

  void Submit(StepPlan plan, Clock::time_point now);

  struct Outcome {
    StepResult result;
    int32_t tokens = 0;     // computed
    Clock::time_point end;  // when the engine hears of it
  };
  // Of the oldest plan not yet collected; there is one.
  Outcome Collect();

 private:
  void SetTime(const StepWork& work, Clock::time_point start, Outcome* outcome);

  const Parts parts_;
  std::vector<size_t> answer_of_;  // by slot
  std::deque<Outcome> outcomes_;
  Clock::time_point free_at_;
};

}  // namespace sluice::engine
