#pragma once

#include <chrono>
#include <memory>
#include <thread>

#include "engine/exec/worker.h"
#include "engine/plan/step_executor.h"

namespace sluice::engine {

// Runs plans on one worker, on a thread of its own. Submit and Collect are the engine thread's;
// plans handed over and not yet collected are few (the planner's depth).
class WorkerExecutor final : public StepExecutor {
 public:
  // A step that takes longer than `step_timeout` counts as lost with its device.
  explicit WorkerExecutor(std::unique_ptr<Worker> worker,
                          std::chrono::milliseconds step_timeout = std::chrono::minutes(2));
  // Finishes the plan being run and drops the others. A step that was lost is left to itself.
  ~WorkerExecutor() override;

  const ExecutorLimits& limits() const override { return limits_; }
  void Submit(StepPlan plan) override;
  // Internal when running a plan failed (out of host memory) or has not ended in time; so are all
  // later ones.
  absl::StatusOr<StepResult> Collect() override;

 private:
  struct Shared;  // with the thread
  static void Loop(Shared* shared);

  const ExecutorLimits limits_;
  const std::chrono::milliseconds step_timeout_;
  const std::shared_ptr<Shared> shared_;
  bool lost_ = false;
  std::thread thread_;  // last: uses all of the above
};

}  // namespace sluice::engine
