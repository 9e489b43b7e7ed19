#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/request.h"
#include "engine/stats.h"

namespace sluice::engine {

// What an operator sees of one answer in the making.
struct SequenceInfo {
  std::string request_id;
  std::string tenant;
  int32_t choice = 0;
  int32_t priority = 0;
  bool running = false;  // holds a slot and is planned; else it waits
  int32_t slot = -1;
  double age = 0;      // seconds since the request arrived
  double waiting = 0;  // of those that wait: seconds since it was put in the line
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;  // of the prompt, found in memory
  int32_t computed_tokens = 0;
  int32_t generated_tokens = 0;
  int32_t tokens_left = 0;  // that it may still generate
  int32_t blocks = 0;
  int32_t preemptions = 0;
};

struct TenantInfo {
  std::string name;
  double weight = 1;
  double served = 0;  // tokens over weight, in all
  int32_t waiting = 0;
  int32_t running = 0;
  int32_t blocks = 0;
};

// The engine between two steps.
struct EngineState {
  EngineStats stats;
  int32_t steps_in_flight = 0;
  std::vector<SequenceInfo> sequences;  // the running ones by age, then the waiting ones by age
  int64_t more_sequences = 0;           // that were left out
  std::vector<TenantInfo> tenants;
};

}  // namespace sluice::engine
