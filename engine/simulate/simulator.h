#pragma once

#include <cstdint>

#include "engine/base/status.h"
#include "engine/plan/step_plan.h"
#include "engine/scheduler/scheduler.h"
#include "engine/simulate/figures.h"
#include "engine/simulate/recording.h"
#include "engine/simulate/step_time.h"
#include "engine/simulate/workload.h"

namespace sluice::engine {

// The scheduler's tables are a gibibyte then.
inline constexpr int64_t kKvTokensMax = int64_t{1} << 28;

// The server that is simulated.
struct SimulatedServer {
  ExecutorLimits limits;
  Scheduler::Options scheduler;
  int32_t depth = 1;           // steps in flight, 1 or 2
  int32_t waiting_max = 1024;  // answers; more are refused
  StepTime time{StepCost{}};
  Overheads overheads;
};

struct SimulationOptions {
  LatencyTargets targets;
  uint64_t seed = 1;
  bool scatter = true;  // false: every step takes the mean time of its like
};

// Runs a workload through the real scheduler, on a virtual clock, in the steps of EngineLoop. The
// same arguments give the same figures. InvalidArgument when the limits are none that a server can
// have. The context holds every prompt of the workload.
absl::StatusOr<RunFigures> Simulate(const SimulatedServer& server, const SimulationOptions& options,
                                    const Workload& workload);

// Most tokens of one answer with its prompt.
int32_t ContextTokens(const ExecutorLimits& limits);

}  // namespace sluice::engine
