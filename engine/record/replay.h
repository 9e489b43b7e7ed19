#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace sluice::engine {

struct ReplayReport {
  int64_t sequences = 0;
  int64_t steps = 0;
  int64_t tokens = 0;     // in all steps
  double seconds = 0;     // from the first record to the last
  int64_t different = 0;  // plans that came out otherwise than recorded
  std::string first_difference;
};

// Runs a flight record through a scheduler of its own and compares every plan with the recorded
// one. InvalidArgument, with the place, for what is no record; FailedPrecondition for one whose
// beginning was dropped: without it the state is not known.
absl::StatusOr<ReplayReport> Replay(std::string_view record);

}  // namespace sluice::engine
