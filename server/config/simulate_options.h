#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/simulate/figures.h"
#include "engine/simulate/step_time.h"
#include "engine/simulate/trace/trace.h"
#include "server/config/print_and_exit.h"

namespace sluice::server {

// Everything that `sluiced simulate` is told. What is not set is the record's, or a default.
struct SimulateOptions {
  std::string trace_path;  // empty: the record's requests
  engine::TraceOptions trace;
  double speed = 1;
  double think_time_max = 0;  // seconds; of the record's requests
  std::string record_path;
  std::optional<int32_t> running_max, step_tokens, kv_blocks, block_size, context_tokens;
  std::optional<int32_t> prefills_max, steps_in_flight;
  std::optional<double> inter_token_target;  // seconds
  std::optional<bool> share_prefixes;
  int32_t waiting_max = 1024;
  std::optional<engine::StepCost> cost;
  bool scatter = true;
  uint64_t seed = 1;
  engine::LatencyTargets targets;
  bool json = false;
};

// Reads the arguments after `sluiced simulate`.
std::variant<SimulateOptions, PrintAndExit> ParseSimulate(
    const std::vector<std::string>& arguments);

}  // namespace sluice::server
