#pragma once

#include <cstdint>

#include "engine/request.h"

namespace sluice::engine {

// A snapshot of the engine's gauges and counters. Published after each step; reading it takes no
// engine lock.
struct EngineStats {
  int64_t requests_running = 0;  // sequences with a slot
  int64_t requests_waiting = 0;  // sequences without one
  int64_t kv_blocks_total = 0;
  int64_t kv_blocks_used = 0;
  int64_t kv_blocks_idle = 0;  // kept for sequences that begin alike; they count as free
  double predicted_wait = 0;   // seconds until a request that comes now would be begun
  int64_t prompt_tokens = 0;   // counters from here on
  int64_t generation_tokens = 0;
  int64_t preemptions = 0;
  int64_t steps = 0;
  int64_t recomputed_tokens = 0;    // tokens computed again after a preemption
  int64_t prefix_query_tokens = 0;  // prompt tokens looked for in memory
  int64_t prefix_hit_tokens = 0;    // of those, found: not computed
  int64_t deadlines_passed = 0;     // sequences ended by their deadline
  int64_t prefill_budget = 0;       // of the last step: tokens that it might spend on prefills
  double step_cost_error = 0;       // mean |predicted - real| / real of step times
};

// Told of every event that latency figures are made from. Called on the output thread; must not
// block.
class EngineObserver {
 public:
  virtual ~EngineObserver() = default;
  virtual void OnFirstToken(double seconds_since_arrival, double seconds_queued) = 0;
  virtual void OnNextToken(double seconds_since_last) = 0;
  // Once a sequence. `prompt_tokens` and `generated_tokens` are the sequence's.
  virtual void OnFinished(FinishReason reason, const SequenceTimes& times, int32_t prompt_tokens,
                          int32_t generated_tokens) = 0;
};

}  // namespace sluice::engine
