// Scheduler: sequences coming, results, and ends. The planning is in scheduler_plan.cc.
#include "engine/scheduler/scheduler.h"

#include <algorithm>

#include "engine/base/check.h"

namespace sluice::engine {
namespace {

const std::shared_ptr<const std::string>& NonFiniteError() {
  static const auto* error = new std::shared_ptr<const std::string>(new std::string(
      "the model computed a value that is not finite (NaN or infinity) for this sequence"));
  return *error;
}

SequenceEvent EventOf(const Sequence& sequence, Clock::time_point now) {
  SequenceEvent event;
  event.id = sequence.id;
  event.time = now;
  event.scheduled = sequence.scheduled;
  event.cached_tokens = sequence.cached_tokens;
  return event;
}

constexpr double kYear = 365 * 86400.0;

// Into a mean over the last twenty or so.
void AddToMean(double value, double* mean) { *mean += (*mean == 0 ? 1 : 0.05) * (value - *mean); }

}  // namespace

Scheduler::Scheduler(const ExecutorLimits& limits, Options options)
    : limits_(limits),
      options_(std::move(options)),
      // A lone sequence must always fit the pool. (In 64 bits: both factors are configuration.)
      context_tokens_(static_cast<int32_t>(std::min<int64_t>(
          limits.context_tokens, static_cast<int64_t>(limits.kv_blocks) * limits.block_size))),
      running_max_(std::min({options_.running_max, limits.slots,
                             std::min(options_.step_tokens, limits.step_tokens)})),
      step_tokens_(std::min(options_.step_tokens, limits.step_tokens)),
      kv_(limits.kv_blocks, limits.block_size, options_.share_prefixes),
      line_(options_.line, limits.kv_blocks) {
  ENGINE_CHECK(running_max_ > 0 && context_tokens_ > 1)
      << "running_max " << running_max_ << ", context " << context_tokens_;
  for (int32_t slot = limits.slots - 1; slot >= 0; --slot) free_slots_.push_back(slot);
  running_.reserve(static_cast<size_t>(running_max_));
}

void Scheduler::Add(uint64_t id, std::shared_ptr<const GenerateRequest> request, int32_t choice) {
  auto sequence =
      std::make_unique<Sequence>(id, std::move(request), choice, options_.end_ids, context_tokens_);
  ENGINE_CHECK(sequence->prompt_tokens() > 0 && sequence->prompt_tokens() < context_tokens_)
      << sequence->prompt_tokens() << " tokens of " << context_tokens_;
  sequence->order = ++last_order_;
  sequence->waiting_since = std::max(now_, sequence->request->arrival);
  sequence->patient_since = sequence->waiting_since;
  if (sequence->request->deadline != Clock::time_point::max())
    deadlines_.emplace(sequence->request->deadline, id);
  line_.Open(sequence.get());
  SetTargets(sequence.get());
  line_.Add(sequence.get());
  counters_.added_tokens += sequence->prompt_tokens();
  const bool is_new = sequences_.emplace(id, std::move(sequence)).second;
  ENGINE_CHECK(is_new) << "sequence " << id << " exists";
}

// The request's own, else its tenant's, else the server's.
void Scheduler::SetTargets(Sequence* sequence) const {
  const GenerateRequest& request = *sequence->request;
  const TenantShare& share = line_.ShareOf(*sequence);
  const auto chosen = [](double own, double tenants, double servers) {
    return own > 0 ? own : tenants > 0 ? tenants : servers;
  };
  sequence->inter_token_target =
      chosen(request.inter_token_target, share.inter_token_target, options_.inter_token_target);
  const double first =
      chosen(request.first_token_target, share.first_token_target, options_.first_token_target);
  if (first <= 0) return;
  const double work = mean_prefill_rate_ > 0 ? sequence->prompt_tokens() / mean_prefill_rate_ : 0;
  // A year is as good as for ever, and no clock runs over.
  const double slack = std::clamp(first - work, -kYear, kYear);
  sequence->start_by = request.arrival + DurationOf(slack);
}

void Scheduler::Finish(uint64_t id, FinishReason reason, Clock::time_point now,
                       std::vector<SequenceEvent>* events) {
  now_ = now;
  const auto it = sequences_.find(id);
  if (it == sequences_.end() || it->second->state == SequenceState::kRetiring) return;
  SequenceEvent event = EventOf(*it->second, now);
  event.finish = reason;
  events->push_back(std::move(event));
  End(it->second.get());
  Sweep();
}

void Scheduler::Expire(Clock::time_point now, std::vector<SequenceEvent>* events) {
  now_ = now;
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const auto it = sequences_.find(deadlines_.begin()->second);
    deadlines_.erase(deadlines_.begin());
    if (it == sequences_.end() || it->second->state == SequenceState::kRetiring) continue;
    SequenceEvent event = EventOf(*it->second, now);
    event.finish = FinishReason::kExpired;
    events->push_back(std::move(event));
    ++counters_.deadlines_passed;
    End(it->second.get());
  }
  Sweep();
}

void Scheduler::FinishAll(FinishReason reason, std::shared_ptr<const std::string> error,
                          Clock::time_point now, std::vector<SequenceEvent>* events) {
  for (const auto& [id, sequence] : sequences_) {
    if (sequence->state == SequenceState::kRetiring) continue;
    SequenceEvent event = EventOf(*sequence, now);
    event.finish = reason;
    event.error = error;
    events->push_back(std::move(event));
    End(sequence.get());
  }
  Sweep();
}

absl::Status Scheduler::CheckResult(const StepResult& result) const {
  if (in_flight_.empty() || in_flight_.front().step != result.step)
    return Internal("the executor gave the result of step " + std::to_string(result.step) +
                    ", which is not the oldest in flight");
  size_t sampled = 0;
  for (const PlannedSlice& slice : in_flight_.front().slices) {
    if (!slice.sampled) continue;
    if (sampled >= result.slices.size() || result.slices[sampled].slot != slice.sequence->slot)
      return Internal("the result of step " + std::to_string(result.step) +
                      " does not name the sampled slots in the plan's order");
    ++sampled;
  }
  if (sampled != result.slices.size())
    return Internal("the result of step " + std::to_string(result.step) + " has " +
                    std::to_string(result.slices.size()) + " tokens instead of " +
                    std::to_string(sampled));
  return absl::OkStatus();
}

absl::Status Scheduler::Commit(StepResult result, Clock::time_point now,
                               std::vector<SequenceEvent>* events) {
  SLUICE_RETURN_IF_ERROR(CheckResult(result));
  now_ = now;
  InFlightStep step = std::move(in_flight_.front());
  in_flight_.erase(in_flight_.begin());
  size_t next = 0;
  for (const PlannedSlice& slice : step.slices)
    CommitSlice(slice, slice.sampled ? &result.slices[next++] : nullptr, now, events);
  Sweep();
  if (step.filled_target > 0) margin_.Observe(result.seconds > step.filled_target);
  cost_.Observe(step.work, result.seconds);
  if (step.prefill_tokens > 0 && result.seconds > 0)
    AddToMean(step.prefill_tokens / result.seconds, &mean_prefill_rate_);
  counters_.step_cost_error = cost_.relative_error();
  counters_.step_margin = margin_.share();
  step.slices.clear();
  spare_slices_.push_back(std::move(step.slices));
  result.spent.Clear();
  spare_plans_.push_back(std::move(result.spent));
  return absl::OkStatus();
}

void Scheduler::CommitSlice(const PlannedSlice& slice, const SliceResult* result,
                            Clock::time_point now, std::vector<SequenceEvent>* events) {
  Sequence* sequence = slice.sequence;
  CountComputed(slice);
  if (result != nullptr && result->status != SliceStatus::kOk) sequence->faulty = true;
  Publish(slice);
  --sequence->steps_in_flight;
  if (result != nullptr) {
    --sequence->samples_in_flight;
    // A token computed after the end is dropped; one from before a preemption is as good as any.
    if (sequence->state != SequenceState::kRetiring)
      TakeToken(sequence, *result, now, events);
    else
      ++counters_.discarded_tokens;
  }
  if (sequence->steps_in_flight > 0) return;
  // A preempted sequence holds its seat until here. (What ended just now let go of it in End.)
  const bool waits_seated = sequence->state == SequenceState::kWaiting && sequence->slot >= 0;
  const bool retires = sequence->state == SequenceState::kRetiring;
  if (!waits_seated && !retires) return;
  draining_blocks_ -= sequence->table.size();
  ReleaseSeat(sequence);
  if (retires) {
    sequence->state = SequenceState::kFinished;
    ended_.push_back(sequence);
  }
}

void Scheduler::TakeToken(Sequence* sequence, const SliceResult& result, Clock::time_point now,
                          std::vector<SequenceEvent>* events) {
  SequenceEvent event = EventOf(*sequence, now);
  if (result.status != SliceStatus::kOk) {
    event.finish = FinishReason::kError;
    event.error = NonFiniteError();
  } else if (result.token < 0 || result.token >= limits_.vocabulary) {
    event.finish = FinishReason::kError;
    event.error = std::make_shared<const std::string>(
        "the model chose token " + std::to_string(result.token) +
        ", which is not in its vocabulary of " + std::to_string(limits_.vocabulary));
  } else {
    sequence->Append(result.token, &event);
    ++counters_.generation_tokens;
  }
  const bool ends = event.finish != FinishReason::kNone;
  events->push_back(std::move(event));
  if (ends) End(sequence);
}

void Scheduler::Publish(const PlannedSlice& slice) {
  Sequence* sequence = slice.sequence;
  if (sequence->faulty) return;
  // A sequence that was cancelled knows no token of the steps that were in flight.
  sequence->computed = std::min(slice.first + slice.count, sequence->known());
  const std::string& salt = sequence->request->cache_salt;
  kv_.Publish(&sequence->table, salt, sequence->Tokens(sequence->computed));
  // The other answers to the same prompt wait for this.
  if (sequence->request->n > 1 && sequence->computed == sequence->prompt_tokens())
    kv_.PublishTail(&sequence->table, salt, sequence->Tokens(sequence->computed));
}

void Scheduler::CountComputed(const PlannedSlice& slice) {
  Sequence* sequence = slice.sequence;
  const int32_t end = slice.first + slice.count;
  const int32_t fresh = std::clamp(sequence->computed_high, slice.first, end);
  counters_.recomputed_tokens += fresh - slice.first;
  const int32_t prompt_end = std::min(end, sequence->prompt_tokens());
  if (fresh < prompt_end) counters_.prompt_tokens += prompt_end - fresh;
  sequence->computed_high = std::max(sequence->computed_high, end);
}

void Scheduler::End(Sequence* sequence) {
  (sequence->state == SequenceState::kRunning ? running_changed_ : waiting_changed_) = true;
  if (sequence->state == SequenceState::kRunning) line_.CountRunning(*sequence, -1);
  if (sequence->generated() > 0) {
    AddToMean(sequence->generated(), &mean_generated_);
    AddToMean(Seconds(now_ - sequence->scheduled), &mean_seat_seconds_);
  }
  // A preempted sequence with steps in flight is counted as draining already.
  const bool draining = sequence->state == SequenceState::kWaiting && sequence->slot >= 0;
  if (sequence->steps_in_flight > 0) {
    if (!draining) draining_blocks_ += sequence->table.size();
    sequence->state = SequenceState::kRetiring;
    ended_.push_back(sequence);
    return;
  }
  if (draining) draining_blocks_ -= sequence->table.size();
  ReleaseSeat(sequence);
  sequence->state = SequenceState::kFinished;
  ended_.push_back(sequence);
}

void Scheduler::ReleaseSeat(Sequence* sequence) {
  if (sequence->faulty) {
    kv_.Forget(&sequence->table);
  } else {
    kv_.PublishTail(&sequence->table, sequence->request->cache_salt,
                    sequence->Tokens(sequence->computed));
  }
  sequence->computed = 0;
  if (sequence->slot >= 0) {
    releases_.push_back(sequence->slot);
    free_slots_.push_back(sequence->slot);
    sequence->slot = -1;
  }
  line_.CountBlocks(*sequence, -sequence->table.size());
  kv_.Release(&sequence->table);
}

void Scheduler::Sweep() {
  if (ended_.empty()) return;
  if (running_changed_)
    std::erase_if(running_, [](const Sequence* s) { return s->state != SequenceState::kRunning; });
  if (waiting_changed_) line_.Sweep();
  running_changed_ = waiting_changed_ = false;
  for (Sequence* sequence : ended_) {
    if (sequence->state != SequenceState::kFinished) continue;
    line_.Close(sequence);
    const auto [first, last] = deadlines_.equal_range(sequence->request->deadline);
    for (auto it = first; it != last;)
      it = it->second == sequence->id ? deadlines_.erase(it) : std::next(it);
    sequences_.erase(sequence->id);
  }
  ended_.clear();
}

// Tokens of prompts a second: those that are found in memory take no time.
double Scheduler::PromptRate() const { return mean_prefill_rate_ / std::max(mean_missing_, 0.01); }

// How long a request that comes now will wait for its first token's computation to begin: until
// what is before it is computed, and until it has a seat, which those who have one keep for their
// mean time.
double Scheduler::PredictedWait() const {
  double wait = 0;
  if (mean_prefill_rate_ > 0) {
    int64_t begun = 0;
    for (const Sequence* sequence : running_) {
      if (sequence->pending() > 1) begun += sequence->pending();
    }
    wait = static_cast<double>(begun) / mean_prefill_rate_ +
           static_cast<double>(line_.known_tokens()) / PromptRate();
  }
  // When some wait, no more could run than do: be it for want of slots or of blocks.
  const auto running = static_cast<double>(running_.size());
  const bool full = !line_.empty() || running >= running_max_;
  if (full && running > 0) wait = std::max(wait, (line_.size() + 1) * mean_seat_seconds_ / running);
  return wait;
}

EngineStats Scheduler::stats() const {
  EngineStats stats = counters_;
  stats.requests_running = static_cast<int64_t>(running_.size());
  stats.requests_waiting = line_.size();
  stats.kv_blocks_total = kv_.total_blocks();
  stats.kv_blocks_used = kv_.used_blocks();
  stats.kv_blocks_idle = kv_.idle_blocks();
  stats.predicted_wait = PredictedWait();
  stats.prefill_rate = PromptRate();
  if (mean_seat_seconds_ > 0)
    stats.ending_rate = static_cast<double>(running_.size()) / mean_seat_seconds_;
  stats.kv_block_size = kv_.block_size();
  return stats;
}

}  // namespace sluice::engine
