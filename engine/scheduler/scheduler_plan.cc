// The planning half of Scheduler: what one step computes.
#include <algorithm>

#include "engine/base/check.h"
#include "engine/scheduler/scheduler.h"

namespace sluice::engine {
namespace {

constexpr size_t kPassedMax = 32;

bool Earlier(const Sequence* a, const Sequence* b) { return a->order < b->order; }

}  // namespace

StepPlan Scheduler::Plan(Clock::time_point now) {
  Draft draft;
  draft.budget = step_tokens_;
  draft.now = now;
  draft.plan.step = last_step_ + 1;
  draft.plan.slices.reserve(running_.size() + 1);
  draft.plan.tokens.reserve(running_.size() + 1);
  if (!spare_slices_.empty()) {
    draft.record.slices = std::move(spare_slices_.back());
    spare_slices_.pop_back();
  }

  PlanDecodes(&draft);
  PlanPrefills(&draft);
  AdmitWaiting(&draft);

  if (draft.plan.slices.empty()) {
    // Slots to release wait for a plan that computes something: a slot that nobody uses costs
    // nothing, a step does.
    spare_slices_.push_back(std::move(draft.record.slices));
    return StepPlan();
  }
  draft.plan.releases = std::move(releases_);
  releases_.clear();
  draft.record.step = ++last_step_;
  in_flight_.push_back(std::move(draft.record));
  ++counters_.steps;
  return std::move(draft.plan);
}

void Scheduler::PlanDecodes(Draft* draft) {
  // Preemption takes sequences off the end, never one that has its slice already.
  for (size_t i = 0; i < running_.size() && draft->budget > 0; ++i) {
    Sequence* sequence = running_[i];
    if (sequence->pending() != 1) continue;
    const int32_t old_size = sequence->table.size();
    if (!GrowOrPreempt(sequence, sequence->planned + 1, draft)) continue;
    AddBlocks(*sequence, old_size, draft);
    AddSlice(sequence, 1, draft);
  }
}

void Scheduler::PlanPrefills(Draft* draft) {
  // A sequence that got its decode slice above has at most one token pending, and no more. Blocks
  // for all known tokens were given at admission.
  for (size_t i = 0; i < running_.size() && draft->budget > 0; ++i) {
    Sequence* sequence = running_[i];
    if (sequence->pending() > 1)
      AddSlice(sequence, std::min(sequence->pending(), draft->budget), draft);
  }
}

void Scheduler::AdmitWaiting(Draft* draft) {
  if (draft->blocks_short) return;
  // A sequence that waits for what another is computing is passed by, but not by too many: each
  // costs a look.
  size_t passed = 0;
  while (draft->budget > 0 && passed < waiting_.size() && passed < kPassedMax) {
    Sequence* sequence = waiting_[passed];
    // A preempted sequence comes back once the last of its old steps is done.
    if (sequence->steps_in_flight > 0) return;
    if (static_cast<int32_t>(running_.size()) >= running_max_ || free_slots_.empty()) return;
    kv_.FindPrefix(sequence->request->cache_salt, sequence->Tokens(sequence->known()),
                   sequence->known() - 1, &match_);
    if (match_.pending) {
      ++passed;
      continue;
    }
    if (!HasRoom(*sequence)) return;
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(passed));
    Admit(sequence, draft);
  }
}

bool Scheduler::HasRoom(const Sequence& sequence) const {
  // Each running sequence may need a block at any step: without the spare ones, an admission would
  // soon be a preemption.
  const auto spare = static_cast<int32_t>(running_.size());
  return kv_.BlocksTaken(match_, sequence.known()) + spare <= kv_.free_blocks();
}

// Takes in a sequence that has room, with what match_ found of it.
void Scheduler::Admit(Sequence* sequence, Draft* draft) {
  // One that was passed by may be older than those that run.
  running_.insert(std::upper_bound(running_.begin(), running_.end(), sequence, Earlier), sequence);
  sequence->state = SequenceState::kRunning;
  sequence->slot = free_slots_.back();
  free_slots_.pop_back();
  if (!sequence->was_planned) {
    sequence->was_planned = true;
    sequence->scheduled = draft->now;
  }

  SlotStart start;
  start.slot = sequence->slot;
  start.sampling = sequence->Sampling();
  start.prompt_tokens = sequence->prompt_tokens();
  if (start.sampling.UsesPenalties()) sequence->CopyTokens(0, sequence->known(), &start.history);
  draft->plan.starts.push_back(std::move(start));

  if (!kv_.Begin(match_, sequence->known(), &sequence->table, &draft->plan.copies)) {
    // No block to copy to besides the one to copy from.
    match_.copy_from = -1;
    match_.copy_tokens = 0;
    ENGINE_CHECK(kv_.Begin(match_, sequence->known(), &sequence->table, &draft->plan.copies))
        << sequence->known() << " tokens";
  }
  CountFound(sequence);
  AddBlocks(*sequence, 0, draft);
  AddSlice(sequence, std::min(sequence->pending(), draft->budget), draft);
}

void Scheduler::CountFound(Sequence* sequence) {
  const int32_t found = match_.tokens(kv_.block_size());
  sequence->planned = sequence->computed = found;
  if (sequence->computed_high == 0) {
    sequence->cached_tokens = found;
    counters_.prefix_query_tokens += sequence->prompt_tokens();
    counters_.prefix_hit_tokens += found;
    counters_.prompt_tokens += found;
  }
  sequence->computed_high = std::max(sequence->computed_high, found);
}

void Scheduler::AddSlice(Sequence* sequence, int32_t count, Draft* draft) {
  PlanSlice slice;
  slice.slot = sequence->slot;
  slice.first_position = sequence->planned;
  slice.token_begin = static_cast<int32_t>(draft->plan.tokens.size());
  slice.count = count;
  slice.generated = sequence->generated() + sequence->samples_in_flight;
  sequence->CopyTokens(sequence->planned, count, &draft->plan.tokens);
  const bool sampled = count == sequence->pending();
  slice.output = sampled ? SliceOutput::kSample : SliceOutput::kNone;
  draft->plan.slices.push_back(slice);
  draft->record.slices.push_back({sequence, sequence->planned, count, sampled});

  draft->budget -= count;
  sequence->planned += count;
  ++sequence->steps_in_flight;
  if (sampled) ++sequence->samples_in_flight;
  if (count > 1 && sequence->planned <= sequence->known())
    kv_.Announce(&sequence->table, sequence->request->cache_salt,
                 sequence->Tokens(sequence->planned));
}

void Scheduler::AddBlocks(const Sequence& sequence, int32_t old_size, Draft* draft) {
  const auto added = sequence.table.blocks().subspan(static_cast<size_t>(old_size));
  if (added.empty()) return;
  std::vector<int32_t>& blocks = draft->plan.blocks;
  draft->plan.appends.push_back(
      {sequence.slot, static_cast<int32_t>(blocks.size()), static_cast<int32_t>(added.size())});
  blocks.insert(blocks.end(), added.begin(), added.end());
}

bool Scheduler::GrowOrPreempt(Sequence* sequence, int32_t tokens, Draft* draft) {
  while (!kv_.Grow(&sequence->table, tokens)) {
    draft->blocks_short = true;
    const int32_t missing = kv_.BlocksFor(tokens) - sequence->table.size();
    // What is draining comes free when the steps in flight are committed: wait for that.
    if (kv_.free_blocks() + draining_blocks_ >= missing) return false;
    ENGINE_CHECK(running_.size() > 1 || draining_blocks_ > 0)
        << "a lone sequence finds no room for " << tokens << " tokens in " << kv_.total_blocks()
        << " blocks";
    if (running_.size() == 1) return false;
    const bool itself = running_.back() == sequence;
    PreemptLast();
    if (itself) return false;
  }
  return true;
}

void Scheduler::PreemptLast() {
  Sequence* victim = running_.back();
  running_.pop_back();
  victim->state = SequenceState::kWaiting;
  victim->planned = 0;
  // Before nearly all that wait.
  waiting_.insert(std::upper_bound(waiting_.begin(), waiting_.end(), victim, Earlier), victim);
  ++counters_.preemptions;
  if (victim->steps_in_flight == 0)
    ReleaseSeat(victim);
  else
    draining_blocks_ += victim->table.size();
}

}  // namespace sluice::engine
