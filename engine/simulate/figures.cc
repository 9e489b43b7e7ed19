#include "engine/simulate/figures.h"

#include <algorithm>

namespace sluice::engine {
namespace {

double KvUse(const EngineStats& stats) {
  return stats.kv_blocks_total == 0 ? 0
                                    : static_cast<double>(stats.kv_blocks_used) /
                                          static_cast<double>(stats.kv_blocks_total);
}

}  // namespace

void FigureBook::See(Clock::time_point time) {
  if (!seen_) first_ = last_ = time;
  seen_ = true;
  first_ = std::min(first_, time);
  last_ = std::max(last_, time);
}

void FigureBook::OnArrival(uint64_t id, Clock::time_point arrival, int32_t prompt_tokens) {
  See(arrival);
  ++figures_.requests;
  figures_.prompt_tokens += prompt_tokens;
  open_[id].arrival = arrival;
}

void FigureBook::OnRefusal(Clock::time_point arrival) {
  See(arrival);
  ++figures_.requests;
  ++figures_.refused;
}

void FigureBook::OnEvents(const std::vector<SequenceEvent>& events) {
  for (const SequenceEvent& event : events) {
    const auto found = open_.find(event.id);
    if (found == open_.end()) continue;
    if (event.token >= 0) OnToken(event.time, &found->second);
    if (event.finish == FinishReason::kNone) continue;
    OnEnd(event, found->second);
    open_.erase(found);
  }
}

void FigureBook::OnToken(Clock::time_point time, Open* answer) {
  See(time);
  ++figures_.output_tokens;
  if (answer->tokens++ == 0) {
    answer->first_token = Seconds(time - answer->arrival);
    figures_.first_token.Add(answer->first_token);
  } else {
    figures_.inter_token.Add(Seconds(time - answer->last));
  }
  answer->last = time;
}

void FigureBook::OnEnd(const SequenceEvent& event, const Open& answer) {
  if (event.finish != FinishReason::kStop && event.finish != FinishReason::kLength) {
    ++figures_.cut;
    return;
  }
  ++figures_.finished;
  const double whole = Seconds(event.time - answer.arrival);
  figures_.end_to_end.Add(whole);
  const auto gaps = static_cast<double>(std::max<int64_t>(answer.tokens - 1, 1));
  const bool good = answer.first_token <= targets_.first_token &&
                    (whole - answer.first_token) / gaps <= targets_.inter_token;
  if (good) ++figures_.good;
}

void FigureBook::OnStep(int32_t tokens, double seconds) {
  ++figures_.steps;
  figures_.step_tokens += tokens;
  figures_.step_seconds += seconds;
}

void FigureBook::OnState(const EngineStats& stats, Clock::time_point now) {
  if (state_time_ != Clock::time_point()) {
    const double held = std::max(0.0, Seconds(now - state_time_));
    state_seconds_ += held;
    kv_sum_ += held * KvUse(stats_);
    running_sum_ += held * static_cast<double>(stats_.requests_running);
    waiting_sum_ += held * static_cast<double>(stats_.requests_waiting);
  }
  stats_ = stats;
  state_time_ = now;
  figures_.kv_peak = std::max(figures_.kv_peak, KvUse(stats));
  figures_.running_peak = std::max(figures_.running_peak, stats.requests_running);
  figures_.waiting_peak = std::max(figures_.waiting_peak, stats.requests_waiting);
}

RunFigures FigureBook::Close() {
  RunFigures figures = figures_;
  figures.seconds = Seconds(last_ - first_);
  if (state_seconds_ > 0) {
    figures.kv_mean = kv_sum_ / state_seconds_;
    figures.running_mean = running_sum_ / state_seconds_;
    figures.waiting_mean = waiting_sum_ / state_seconds_;
  }
  figures.prefix_query_tokens = stats_.prefix_query_tokens;
  figures.prefix_hit_tokens = stats_.prefix_hit_tokens;
  figures.preemptions = stats_.preemptions;
  figures.recomputed_tokens = stats_.recomputed_tokens;
  return figures;
}

}  // namespace sluice::engine
