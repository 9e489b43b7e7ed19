#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/plan/step_plan.h"
#include "engine/scheduler/scheduler.h"
#include "engine/simulate/figures.h"
#include "engine/simulate/samples.h"
#include "engine/simulate/step_time.h"

namespace sluice::engine {

// One answer that a server was asked for, and what it gave.
struct RecordedAnswer {
  std::shared_ptr<const GenerateRequest> request;
  int32_t choice = 0;
  std::vector<int32_t> tokens;
  FinishReason finish = FinishReason::kNone;  // kNone: still in the making when it was written
  bool ended_by_token = false;                // its last one, or its length
  Clock::time_point end;                      // on the server's clock, as the request's arrival
};

// Time that passes besides the steps' own.
struct Overheads {
  Samples handoff;       // of a step: planning it, handing it over, hearing of its end
  Samples turnaround;    // from a step's result to planning the next
  double admission = 0;  // seconds from a request's arrival to the scheduler's knowing of it
};

// What can be learnt from a flight record about the server that wrote it.
struct Recording {
  ExecutorLimits limits;
  Scheduler::Options scheduler;
  int32_t depth = 1;  // steps in flight
  std::vector<ObservedStep> steps;
  Overheads overheads;
  std::vector<RecordedAnswer> answers;  // as they came to the scheduler
  RunFigures figures;
};

// As Replay; InvalidArgument also when the plans come out otherwise than recorded: by the scheduler
// of another version, whose steps' work is not known then.
absl::StatusOr<Recording> ReadRecording(std::string_view bytes, const LatencyTargets& targets);

}  // namespace sluice::engine
