#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "engine/request.h"
#include "engine/sequence.h"
#include "engine/simulate/latency_histogram.h"
#include "engine/stats.h"

namespace sluice::engine {

// What a request must keep to for its answer to be a good one, in seconds: the time to its first
// token, and the mean time between its tokens.
struct LatencyTargets {
  double first_token = 1;
  double inter_token = 0.1;
};

// What a run of the scheduler, real or simulated, gave its callers and took of the server. Times
// are the engine's: from a request's arrival to its token being there, without the network.
struct RunFigures {
  int64_t requests = 0;  // answers asked for
  int64_t finished = 0;  // to their end or length
  int64_t cut = 0;       // cancelled, expired, failed
  int64_t refused = 0;   // too many waited
  int64_t good = 0;      // finished within the targets
  double seconds = 0;    // from the first arrival to the last token
  int64_t prompt_tokens = 0;
  int64_t output_tokens = 0;
  LatencyHistogram first_token, inter_token, end_to_end;
  double kv_mean = 0, kv_peak = 0;  // of the blocks, those held by running ones
  double running_mean = 0, waiting_mean = 0;
  int64_t running_peak = 0, waiting_peak = 0;
  int64_t prefix_query_tokens = 0, prefix_hit_tokens = 0;
  int64_t preemptions = 0, recomputed_tokens = 0;
  int64_t steps = 0;
  int64_t step_tokens = 0;
  double step_seconds = 0;  // that the device computed

  double PerSecond(int64_t count) const {
    return seconds > 0 ? static_cast<double>(count) / seconds : 0;
  }
};

// Gathers them. Calls come in the order of their times.
class FigureBook {
 public:
  explicit FigureBook(const LatencyTargets& targets) : targets_(targets) {}

  void OnArrival(uint64_t id, Clock::time_point arrival, int32_t prompt_tokens);
  void OnRefusal(Clock::time_point arrival);
  void OnEvents(const std::vector<SequenceEvent>& events);
  void OnStep(int32_t tokens, double seconds);
  // The gauges that hold from now on.
  void OnState(const EngineStats& stats, Clock::time_point now);

  int64_t open() const { return static_cast<int64_t>(open_.size()); }
  RunFigures Close();

 private:
  struct Open {
    Clock::time_point arrival;
    Clock::time_point last;
    double first_token = 0;
    int64_t tokens = 0;
  };
  void See(Clock::time_point time);
  void OnToken(Clock::time_point time, Open* answer);
  void OnEnd(const SequenceEvent& event, const Open& answer);

  const LatencyTargets targets_;
  RunFigures figures_;
  std::unordered_map<uint64_t, Open> open_;
  EngineStats stats_;
  Clock::time_point first_, last_, state_time_;
  bool seen_ = false;
  double state_seconds_ = 0, kv_sum_ = 0, running_sum_ = 0, waiting_sum_ = 0;
};

}  // namespace sluice::engine
