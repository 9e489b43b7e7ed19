#pragma once

#include "server/config/serve_options.h"

namespace sluice::server {

// Blocks SIGTERM and SIGINT in this thread and in all that it starts, ignores SIGPIPE, and raises
// the limit of open files to what is allowed. Call first in main.
void PrepareProcess();

// Serves until a signal or a failure, and returns the process's exit code:
// header read and memory checked; port open and saying "loading"; weights read; ready; on a signal
// not ready, what runs finishes within the grace, port closed, 0. A second signal ends the process
// at once. An engine failure ends it with 1.
int RunDaemon(ServeOptions options);

}  // namespace sluice::server
