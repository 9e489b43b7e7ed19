#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "engine/exec/worker.h"
#include "engine/plan/step_executor.h"

namespace sluice::engine {

// Runs plans on one worker, on a thread of its own. Submit and Collect are the engine thread's;
// plans handed over and not yet collected are few (the planner's depth).
class WorkerExecutor final : public StepExecutor {
 public:
  explicit WorkerExecutor(std::unique_ptr<Worker> worker);
  ~WorkerExecutor() override;  // finishes the plan being run, drops the others

  const ExecutorLimits& limits() const override { return limits_; }
  void Submit(StepPlan plan) override;
  // Internal when running a plan failed (out of host memory); so are all later ones.
  absl::StatusOr<StepResult> Collect() override;

 private:
  void Loop();
  absl::StatusOr<StepResult> RunGuarded(const StepPlan& plan);

  std::unique_ptr<Worker> worker_;  // the thread's, once it runs
  const ExecutorLimits limits_;
  std::mutex mutex_;
  std::condition_variable submitted_, finished_;
  std::deque<StepPlan> plans_;                      // under mutex_
  std::deque<absl::StatusOr<StepResult>> results_;  // under mutex_
  int64_t outstanding_ = 0;                         // submitted and not collected; under mutex_
  bool stopping_ = false;                           // under mutex_
  std::thread thread_;                              // last: uses all of the above
};

}  // namespace sluice::engine
