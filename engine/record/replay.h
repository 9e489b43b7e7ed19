#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/plan/step_plan.h"
#include "engine/request.h"
#include "engine/scheduler/scheduler.h"

namespace sluice::engine {

struct ReplayReport {
  int64_t sequences = 0;
  int64_t steps = 0;
  int64_t tokens = 0;     // in all steps
  double seconds = 0;     // from the first record to the last
  int64_t different = 0;  // plans that came out otherwise than recorded
  std::string first_difference;
};

// Told of what a record holds while it is run again, in its order. The scheduler is the replay's
// own, as it is after what is told.
class ReplayWatcher {
 public:
  virtual ~ReplayWatcher() = default;
  virtual void OnOptions(const ExecutorLimits&, const Scheduler::Options&) {}
  virtual void OnAdd(uint64_t /*id*/, const std::shared_ptr<const GenerateRequest>&,
                     int32_t /*choice*/) {}
  // Also of empty plans.
  virtual void OnPlan(const StepPlan&, Clock::time_point, const Scheduler&) {}
  virtual void OnCommit(const StepResult&, Clock::time_point, const Scheduler&) {}
  // What came of the call that was told last, if anything.
  virtual void OnEvents(const std::vector<SequenceEvent>&) {}
};

// The bytes of a record's file.
absl::StatusOr<std::string> ReadRecordFile(const std::string& path);

// Runs a flight record through a scheduler of its own and compares every plan with the recorded
// one. InvalidArgument, with the place, for what is no record; FailedPrecondition for one whose
// beginning was dropped: without it the state is not known.
absl::StatusOr<ReplayReport> Replay(std::string_view record, ReplayWatcher* watcher = nullptr);

}  // namespace sluice::engine
