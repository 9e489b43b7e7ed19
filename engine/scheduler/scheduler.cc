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
      kv_(limits.kv_blocks, limits.block_size) {
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
  waiting_.push_back(sequence.get());
  const bool is_new = sequences_.emplace(id, std::move(sequence)).second;
  ENGINE_CHECK(is_new) << "sequence " << id << " exists";
}

void Scheduler::Finish(uint64_t id, FinishReason reason, Clock::time_point now,
                       std::vector<SequenceEvent>* events) {
  const auto it = sequences_.find(id);
  if (it == sequences_.end() || it->second->state == SequenceState::kRetiring) return;
  SequenceEvent event;
  event.id = id;
  event.finish = reason;
  event.time = now;
  event.scheduled = it->second->scheduled;
  events->push_back(std::move(event));
  End(it->second.get());
  Sweep();
}

void Scheduler::FinishAll(FinishReason reason, std::shared_ptr<const std::string> error,
                          Clock::time_point now, std::vector<SequenceEvent>* events) {
  for (const auto& [id, sequence] : sequences_) {
    if (sequence->state == SequenceState::kRetiring) continue;
    SequenceEvent event;
    event.id = id;
    event.finish = reason;
    event.time = now;
    event.scheduled = sequence->scheduled;
    event.error = error;
    events->push_back(std::move(event));
    End(sequence.get());
  }
  Sweep();
}

absl::Status Scheduler::Commit(const StepResult& result, Clock::time_point now,
                               std::vector<SequenceEvent>* events) {
  if (in_flight_.empty() || in_flight_.front().step != result.step)
    return Internal("the executor gave the result of step " + std::to_string(result.step) +
                    ", which is not the oldest in flight");
  InFlightStep& step = in_flight_.front();
  size_t sampled = 0;
  for (const PlannedSlice& slice : step.slices) {
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

  size_t next = 0;
  for (const PlannedSlice& slice : step.slices)
    CommitSlice(slice, slice.sampled ? &result.slices[next++] : nullptr, now, events);
  Sweep();
  step.slices.clear();
  spare_slices_.push_back(std::move(step.slices));
  in_flight_.pop_front();
  return absl::OkStatus();
}

void Scheduler::CommitSlice(const PlannedSlice& slice, const SliceResult* result,
                            Clock::time_point now, std::vector<SequenceEvent>* events) {
  Sequence* sequence = slice.sequence;
  CountComputed(slice);
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
  SequenceEvent event;
  event.id = sequence->id;
  event.time = now;
  event.scheduled = sequence->scheduled;
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
  if (sequence->slot >= 0) {
    releases_.push_back(sequence->slot);
    free_slots_.push_back(sequence->slot);
    sequence->slot = -1;
  }
  kv_.Release(&sequence->table);
}

void Scheduler::Sweep() {
  if (ended_.empty()) return;
  if (running_changed_)
    std::erase_if(running_, [](const Sequence* s) { return s->state != SequenceState::kRunning; });
  if (waiting_changed_)
    std::erase_if(waiting_, [](const Sequence* s) { return s->state != SequenceState::kWaiting; });
  running_changed_ = waiting_changed_ = false;
  for (const Sequence* sequence : ended_)
    if (sequence->state == SequenceState::kFinished) sequences_.erase(sequence->id);
  ended_.clear();
}

EngineStats Scheduler::stats() const {
  EngineStats stats = counters_;
  stats.requests_running = static_cast<int64_t>(running_.size());
  stats.requests_waiting = static_cast<int64_t>(waiting_.size());
  stats.kv_blocks_total = kv_.total_blocks();
  stats.kv_blocks_used = kv_.used_blocks();
  stats.kv_block_size = kv_.block_size();
  return stats;
}

}  // namespace sluice::engine
