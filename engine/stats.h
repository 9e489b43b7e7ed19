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
  int64_t kv_block_size = 0;   // tokens
  int64_t kv_blocks_idle = 0;  // kept for sequences that begin alike; they count as free
  double predicted_wait = 0;   // seconds until a request that comes now would be begun
  double prefill_rate = 0;     // prompt tokens a second, those found in memory too; 0: not known
  double ending_rate = 0;      // answers a second, by how long they take; 0: not known
  int64_t prefill_budget = 0;  // of the last step: tokens that it might spend on prefills
  double step_cost_error = 0;  // mean |predicted - real| / real of step times
  double step_margin = 0;      // share of an inter-token target that is kept free
  int64_t added_tokens = 0;    // counters from here on: of all prompts that came
  int64_t prompt_tokens = 0;
  int64_t generation_tokens = 0;  // taken in by their sequences
  int64_t preemptions = 0;
  int64_t steps = 0;
  int64_t recomputed_tokens = 0;    // tokens computed again after a preemption
  int64_t discarded_tokens = 0;     // tokens computed for sequences that had ended
  int64_t prefix_query_tokens = 0;  // prompt tokens looked for in memory
  int64_t prefix_hit_tokens = 0;    // of those, found: not computed
  int64_t deadlines_passed = 0;     // sequences ended by their deadline
};

// One answer that has ended.
struct FinishedAnswer {
  FinishReason reason = FinishReason::kNone;
  SequenceTimes times;
  int32_t generated_tokens = 0;
  const GenerateRequest* request = nullptr;  // for the time of the call
};

// One step that the executor ran.
struct StepFacts {
  int32_t sequences = 0;
  int32_t tokens = 0;  // computed, of prompts and answers
  double seconds = 0;  // from its start, or the end of the step before it, to its result
};

// Told of every event that figures are made from; must not block. OnStep comes on the engine
// thread, all others on the output thread.
class EngineObserver {
 public:
  virtual ~EngineObserver() = default;
  virtual void OnFirstToken(double seconds_since_arrival, double seconds_queued) = 0;
  virtual void OnNextToken(double seconds_since_last) = 0;
  // Once an answer, before its final chunk reaches the sink.
  virtual void OnFinished(const FinishedAnswer& answer) = 0;
  // A token that was computed although its answer had ended.
  virtual void OnDiscardedToken() {}
  virtual void OnStep(const StepFacts&) {}
};

}  // namespace sluice::engine
