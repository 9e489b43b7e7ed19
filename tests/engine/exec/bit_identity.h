#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/exec/worker.h"

namespace sluice::testing {

// One generation for the comparison.
struct Generation {
  std::vector<int32_t> prompt;
  engine::SamplingParams sampling;
  int32_t tokens = 0;  // to generate
};

// How a worker is made to run a set of generations.
struct Schedule {
  int32_t together = 1;      // sequences that run at once
  int32_t chunk = 1 << 30;   // most prompt tokens of one slice
  int32_t budget = 1 << 30;  // most tokens of one step
  bool reversed = false;     // begin with the last generation
  // After this many tokens a sequence loses its slot and is computed again from its known tokens;
  // 0: never.
  int32_t preempt_after = 0;
};

// Runs all generations and returns what each generated.
std::vector<std::vector<int32_t>> Generate(engine::Worker& worker,
                                           const std::vector<Generation>& generations,
                                           const Schedule& schedule);

}  // namespace sluice::testing
