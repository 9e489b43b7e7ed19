#pragma once

#include "server/config/serve_options.h"

namespace sluice::server {

// Blocks SIGTERM, SIGINT and SIGHUP in this thread and in all that it starts, ignores SIGPIPE, and
// raises the limit of open files to what is allowed. Call first in main.
void PrepareProcess();

// Serves until a signal or a failure, and returns the process's exit code.
//
// Start: header read and memory checked; port open and saying "loading"; weights read; ready.
//
// End, on SIGTERM: at once "not ready" (/readyz, gRPC's health), but for the lame-duck time
// requests are still taken, since load balancers need some seconds to stop sending them (they may
// well send to an idle server, so that one waits, too). Then the ports and idle connections close,
// and what runs has the grace to finish; what has not by then gets an error event. On SIGINT the
// same without the lame-duck time: it comes from a keyboard. SIGHUP means the same as SIGINT where
// a terminal has been closed, and nothing where there is none (in a container, under a supervisor):
// there is nothing to reload.
//
// Exit codes: 0 ended by a signal, whether all answers were finished or cut off after the grace,
// also while loading; 1 could not start, or the engine failed; 2 wrong usage (main's); 128 + n: a
// second signal n, which ends the process at once.
int RunDaemon(ServeOptions options);

}  // namespace sluice::server
