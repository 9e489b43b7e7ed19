#pragma once

#include "server/config/simulate_options.h"

namespace sluice::server {

// `sluiced simulate`: prints what a server would do with a load. Returns the exit code: 0, or 2
// when a file can't be read or the limits are none that a server can have.
int RunSimulate(const SimulateOptions& options);

}  // namespace sluice::server
