// A trace of requests, of any format or none. What is accepted is in order, and a server can be
// simulated with it; errors are one line.
//
// Input: the file's text.

#include <cmath>
#include <sstream>
#include <string>
#include <utility>

#include "engine/simulate/simulator.h"
#include "engine/simulate/trace/trace.h"
#include "engine/simulate/trace_workload.h"
#include "tests/fuzz/input.h"

namespace sluice::testing {
namespace {

using engine::Trace;
using engine::TraceWorkload;

engine::SimulatedServer SmallServer() {
  engine::SimulatedServer server;
  server.limits = {4, 32, 64, 16, 128, TraceWorkload::kVocabulary};
  server.scheduler.running_max = 4;
  server.scheduler.step_tokens = 32;
  server.time = engine::StepTime(engine::StepCost{1e-3, 1e-5, 0, 0});
  return server;
}

void CheckRequests(const Trace& trace) {
  Require(!trace.requests.empty(), "there is a request");
  Require(trace.requests.front().seconds == 0, "the first one comes at 0");
  double last = 0;
  for (const engine::TraceRequest& request : trace.requests) {
    Require(std::isfinite(request.seconds) && request.seconds >= last, "they are in order");
    Require(request.prompt_tokens > 0 && request.output_tokens > 0, "none is empty");
    last = request.seconds;
  }
}

}  // namespace
}  // namespace sluice::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice;
  using sluice::testing::Require;
  std::istringstream in(std::string(reinterpret_cast<const char*>(data), size));
  auto trace = engine::ReadTrace(&in, "fuzz", {});
  if (!trace.ok()) {
    const std::string error = engine::Message(trace.status());
    Require(error.starts_with("fuzz:") && error.find('\n') == std::string::npos,
            "errors are one line with the place", error);
    return 0;
  }
  sluice::testing::CheckRequests(*trace);
  const auto requests = static_cast<int64_t>(trace->requests.size());
  const engine::SimulatedServer server = sluice::testing::SmallServer();
  // So fast that any number of years goes by.
  const engine::TraceWorkload workload(*std::move(trace), 1e6, ContextTokens(server.limits));
  const auto figures = engine::Simulate(server, {}, workload);
  Require(figures.ok(), "it can be simulated",
          figures.ok() ? "" : engine::Message(figures.status()));
  Require(figures->requests == requests && figures->finished + figures->refused == requests,
          "every request is answered or refused");
  return 0;
}
