// sluiced without a model: the real front and engine over a scripted executor, for tests that need
// exact tokens or exact faults through a client library. Prints its port, serves until SIGTERM.
//   scripted_server [--step-ms N] [--max-waiting N] [--max-running N] [--fail-at-step N]
//   [--grace-ms N]
#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>

#include "server/lifecycle/daemon.h"
#include "tests/server/support/test_server.h"

int main(int argc, char** argv) {
  sluice::server::PrepareProcess();
  std::map<std::string, int> arguments;
  for (int i = 1; i + 1 < argc; i += 2) arguments[argv[i]] = std::atoi(argv[i + 1]);
  const auto argument = [&](const char* name, int otherwise) {
    const auto found = arguments.find(name);
    return found == arguments.end() ? otherwise : found->second;
  };

  sluice::testing::TestServerOptions options;
  options.engine.running_max = argument("--max-running", 64);
  options.engine.waiting_max = argument("--max-waiting", 1024);
  options.model.waiting_max = options.engine.waiting_max;
  const int step_ms = argument("--step-ms", 0);
  const int fail_at_step = argument("--fail-at-step", 0);
  options.fails = [=](uint64_t step) {
    if (step_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(step_ms));
    return fail_at_step > 0 && step == static_cast<uint64_t>(fail_at_step);
  };
  sluice::testing::TestServer server(std::move(options));
  std::printf("http://127.0.0.1:%d\n", server.port());
  std::fflush(stdout);

  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  int signal = 0;
  sigwait(&set, &signal);
  server.readiness().Set(sluice::server::Readiness::State::kDraining);
  server.engine().Drain(std::chrono::milliseconds(argument("--grace-ms", 5000)));
  server.front().Stop(std::chrono::seconds(2));
  return 0;
}
