#pragma once

#include "engine/base/status.h"
#include "engine/plan/step_plan.h"

namespace sluice::engine {

// Runs plans. Implemented by exec/executor (real workers) and by the simulated worker of the tests.
// Submit and Collect are called by the engine thread alone; plans run in order.
class StepExecutor {
 public:
  virtual ~StepExecutor() = default;
  virtual const ExecutorLimits& limits() const = 0;
  // Hands over a plan; does not wait for it.
  virtual void Submit(StepPlan plan) = 0;
  // Waits for the oldest plan not yet collected. An error is the world's (device or rank lost): the
  // engine ends all requests and stops.
  virtual absl::StatusOr<StepResult> Collect() = 0;
};

}  // namespace sluice::engine
