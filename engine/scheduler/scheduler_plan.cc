// The planning half of Scheduler: what one step computes.
#include <algorithm>
#include <tuple>

#include "engine/base/check.h"
#include "engine/scheduler/scheduler.h"

namespace sluice::engine {
namespace {

constexpr int32_t kPassedMax = 32;
constexpr int32_t kForRoom = INT32_MIN;  // a victim of any priority
constexpr double kRecent = 0.05;         // of a mean over the last twenty or so
constexpr int32_t kPreemptionsTold = 4;  // beyond so many, all count as preempted often

// Of the running sequences that may go, the one of least rank, and of those the least costly to
// preempt; never the oldest of all.
template <typename MayGo, typename Rank>
Sequence* LeastCostly(const std::vector<Sequence*>& running, const MayGo& may_go,
                      const Rank& rank) {
  const auto cost = [&](const Sequence* s) {
    return std::tuple(rank(s), std::min(s->preemptions, kPreemptionsTold), s->known(),
                      -static_cast<int64_t>(s->order));
  };
  Sequence* victim = nullptr;
  for (size_t i = 1; i < running.size(); ++i) {
    Sequence* sequence = running[i];
    if (!may_go(sequence)) continue;
    if (victim == nullptr || cost(sequence) < cost(victim)) victim = sequence;
  }
  return victim;
}

}  // namespace

StepPlan Scheduler::Plan(Clock::time_point now) {
  Draft draft;
  draft.budget = step_tokens_;
  draft.now = now;
  now_ = now;
  if (!spare_plans_.empty()) {
    draft.plan = std::move(spare_plans_.back());
    spare_plans_.pop_back();
  }
  if (!spare_slices_.empty()) {
    draft.record.slices = std::move(spare_slices_.back());
    spare_slices_.pop_back();
  }
  draft.plan.step = last_step_ + 1;

  line_.StartRound(now);
  MakeRoomForFirst();
  PlanDecodes(&draft);
  SetPrefillBudget(&draft);
  counters_.prefill_budget = draft.budget;
  PlanPrefills(&draft);
  if (draft.budget > 0) draft.record.filled_target = 0;

  if (draft.plan.slices.empty()) {
    // Slots to release wait for a plan that computes something: a slot that nobody uses costs
    // nothing, a step does.
    spare_slices_.push_back(std::move(draft.record.slices));
    spare_plans_.push_back(std::move(draft.plan));
    return StepPlan();
  }
  draft.plan.releases.swap(releases_);
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
    const double target = sequence->inter_token_target;
    if (target > 0 && (draft->target == 0 || target < draft->target)) draft->target = target;
  }
}

// What may be spent on prefills besides the decodes that are planned.
void Scheduler::SetPrefillBudget(Draft* draft) const {
  if (draft->target <= 0 || !cost_.ready()) return;
  // Prefills attend to what is before them: taken to be that of the first in line.
  int32_t first = 0;
  for (const Sequence* sequence : running_) {
    if (sequence->pending() <= 1) continue;
    first = sequence->planned;
    break;
  }
  const double until = draft->target * (1 - margin_.share());
  const auto fits = [&](int32_t tokens) {
    StepWork work = draft->record.work;
    work.Add(first, tokens);
    return cost_.Predict(work) <= until;
  };
  int32_t low = 0, high = draft->budget;  // low fits, or nothing does
  while (low < high) {
    const int32_t middle = low + (high - low + 1) / 2;
    if (fits(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  const int32_t least = std::min(draft->budget, options_.prefill_tokens_min);
  if (low > least && low < draft->budget) draft->record.filled_target = draft->target;
  draft->budget = std::max(low, least);
}

void Scheduler::PlanPrefills(Draft* draft) {
  prefills_.clear();
  // A sequence that got its decode slice above has at most one token pending, and no more.
  for (Sequence* sequence : running_) {
    if (sequence->pending() > 1) prefills_.push_back(sequence);
  }
  if (prefills_.empty()) return AdmitWaiting(draft, nullptr);
  Sequence* const oldest = prefills_.front();
  std::sort(prefills_.begin() + 1, prefills_.end(), [&](const Sequence* a, const Sequence* b) {
    return OrderOfPrefill(*a) < OrderOfPrefill(*b);
  });
  // It may get more of the budget in the end; whoever needs the same tokens waits for all.
  if ((prefills_.size() > 1 || !line_.empty()) &&
      oldest->planned + oldest->pending() <= oldest->known()) {
    const int32_t most = oldest->planned + std::min(oldest->pending(), draft->budget);
    kv_.Announce(&oldest->table, oldest->request->cache_salt, oldest->Tokens(most));
  }
  // All that are not planned yet may be left partly computed.
  draft->prefills = static_cast<int32_t>(prefills_.size());
  // What the oldest gets before others do: a few tokens before those that are owed more, then up to
  // half of all.
  const bool alone = prefills_.size() == 1 && line_.empty();
  const int32_t due = std::min(oldest->pending(), alone ? draft->budget : (draft->budget + 1) / 2);
  int32_t reserved = std::min(due, options_.prefill_tokens_min);
  draft->budget -= reserved;
  size_t next = 1;
  for (; next < prefills_.size() && IsOwedMore(*prefills_[next], *oldest); ++next)
    PlanPrefillInOrder(prefills_[next], draft);
  AdmitWaiting(draft, oldest);
  const int32_t more = std::min(due - reserved, draft->budget);
  draft->budget -= more;
  reserved += more;
  if (reserved == oldest->pending()) --draft->prefills;
  for (; next < prefills_.size(); ++next) PlanPrefillInOrder(prefills_[next], draft);
  AdmitWaiting(draft, nullptr);
  draft->budget += reserved;
  PlanPrefill(oldest, draft->budget, draft);
}

// A prompt that is partly computed, after those that wait and are owed more.
void Scheduler::PlanPrefillInOrder(Sequence* sequence, Draft* draft) {
  AdmitWaiting(draft, sequence);
  --draft->prefills;
  PlanPrefill(sequence, draft->budget, draft);
}

// Whether `sequence` comes before `other`, whose prompt is partly computed, although it came later:
// for its priority, or as WaitingLine serves tenants; not for having lost patience alone.
bool Scheduler::IsOwedMore(const Sequence& sequence, const Sequence& other) const {
  const auto [priority, served, patient] = line_.RankOf(sequence);
  const auto [other_priority, other_served, other_patient] = line_.RankOf(other);
  return std::tie(priority, served) < std::tie(other_priority, other_served);
}

// Blocks for all known tokens were given at admission.
void Scheduler::PlanPrefill(Sequence* sequence, int32_t budget, Draft* draft) {
  const int32_t count = std::min(sequence->pending(), budget);
  if (count < sequence->pending()) ++draft->prefills;
  if (count > 0) AddSlice(sequence, count, draft);
}

// Those that are owed more than `other`; all, if that is nullptr.
void Scheduler::AdmitWaiting(Draft* draft, const Sequence* other) {
  if (draft->blocks_short) return;
  // Each look costs: not too many that can't be admitted yet are passed by.
  while (draft->budget > 0 && draft->passed < kPassedMax) {
    Sequence* sequence = line_.Next();
    if (sequence == nullptr || (other != nullptr && !IsOwedMore(*sequence, *other))) return;
    // A preempted sequence comes back once the last of its old steps is done.
    if (sequence->steps_in_flight > 0) return;
    if (!HasSlot()) return;
    FindPrefix(*sequence);
    const int32_t missing = sequence->known() - match_.tokens(kv_.block_size());
    const bool too_long = missing > draft->budget && draft->prefills >= options_.prefills_max;
    // Perhaps not any more, when those that are to be planned yet are.
    if (too_long && !match_.pending && other != nullptr) return;
    if (match_.pending || too_long) {
      line_.Pass(*sequence);
      ++draft->passed;
      continue;
    }
    if (!HasRoom(*sequence)) return;
    line_.Remove(sequence);
    Admit(sequence, draft);
  }
}

// The first in line takes the seats of running ones of lower priority, if it needs them, or one
// seat of a tenant that has more than its share. Before anything is planned: a sequence that has
// its slice already can't be preempted.
void Scheduler::MakeRoomForFirst() {
  const Sequence* first = line_.Next();
  if (first == nullptr || first->steps_in_flight > 0) return;
  // What is draining comes free when the steps in flight are committed.
  while (draining_blocks_ == 0) {
    Sequence* victim = Victim(last_step_ + 1, first->request->priority);
    if (victim == nullptr && !HasSlot()) victim = VictimOfFairness(*first);
    if (victim == nullptr) return;
    FindPrefix(*first);
    if (match_.pending || (HasSlot() && HasRoom(*first))) return;
    Preempt(victim);
  }
}

// Of the running sequences of the tenant that has most seats for its weight, the one to go for
// `first`; nullptr when the tenant of `first` would have more than that one then, or when the one
// that went would come before `first` again. So no seat goes to and fro, and a tenant that comes
// with little does not wait for a flood to ebb.
Sequence* Scheduler::VictimOfFairness(const Sequence& first) const {
  const double after = line_.SeatsForWeight(first, 1);
  const auto may_go = [&](const Sequence* s) {
    return s->tenant != first.tenant && after <= line_.SeatsForWeight(*s, -1) &&
           s->request->priority >= first.request->priority && IsOwedMore(first, *s);
  };
  return LeastCostly(running_, may_go, [&](const Sequence* s) {
    return std::pair(-line_.SeatsForWeight(*s, 0), s->lost_patience);
  });
}

void Scheduler::FindPrefix(const Sequence& sequence) {
  kv_.FindPrefix(sequence.request->cache_salt, sequence.Tokens(sequence.known()),
                 sequence.known() - 1, &match_);
}

bool Scheduler::HasSlot() const {
  return static_cast<int32_t>(running_.size()) < running_max_ && !free_slots_.empty();
}

bool Scheduler::HasRoom(const Sequence& sequence) const {
  return kv_.BlocksTaken(match_, sequence.known()) + ExpectedGrowth() <= kv_.free_blocks();
}

// Blocks that the running sequences will take before they end: those that end give theirs back, so
// half of what is to come, and one at least each.
int32_t Scheduler::ExpectedGrowth() const {
  int32_t blocks = 0;
  for (const Sequence* sequence : running_) {
    const auto usual = static_cast<int32_t>(mean_generated_) - sequence->generated();
    const int32_t more = std::min(sequence->left(), usual);
    blocks += std::max(1, more / (2 * kv_.block_size()));
  }
  return blocks;
}

// Takes in a sequence that has room, with what match_ found of it.
void Scheduler::Admit(Sequence* sequence, Draft* draft) {
  // One that was passed by may be older than those that run.
  running_.insert(std::upper_bound(running_.begin(), running_.end(), sequence, Earlier), sequence);
  line_.CountRunning(*sequence, 1);
  sequence->lost_patience = line_.HasLostPatience(*sequence);
  sequence->state = SequenceState::kRunning;
  sequence->ReserveMost();
  sequence->table.Reserve(kv_.BlocksFor(sequence->known() + sequence->left()));
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

  ENGINE_CHECK(kv_.Begin(&match_, sequence->known(), &sequence->table, &draft->plan.copies))
      << sequence->known() << " tokens";
  CountFound(sequence);
  AddBlocks(*sequence, 0, draft);
  PlanPrefill(sequence, draft->budget, draft);
}

void Scheduler::CountFound(Sequence* sequence) {
  const int32_t found = match_.tokens(kv_.block_size());
  sequence->planned = sequence->computed = found;
  if (sequence->computed_high == 0) {
    mean_missing_ +=
        kRecent * (1.0 - static_cast<double>(found) / sequence->known() - mean_missing_);
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

  const int32_t fresh = std::max(sequence->planned, sequence->computed_high);
  const int32_t end = sequence->planned + count;
  line_.Charge(*sequence, std::max(0, std::min(end, sequence->prompt_tokens()) - fresh),
               sampled ? 1 : 0);
  if (count > 1) draft->record.prefill_tokens += count;
  draft->record.work.Add(sequence->planned, count);

  draft->budget -= count;
  sequence->planned = end;
  sequence->planned_step = draft->plan.step;
  ++sequence->steps_in_flight;
  if (sampled) ++sequence->samples_in_flight;
  if (count > 1 && sequence->planned <= sequence->known())
    kv_.Announce(&sequence->table, sequence->request->cache_salt,
                 sequence->Tokens(sequence->planned));
}

void Scheduler::AddBlocks(const Sequence& sequence, int32_t old_size, Draft* draft) {
  const auto added = sequence.table.blocks().subspan(static_cast<size_t>(old_size));
  if (added.empty()) return;
  line_.CountBlocks(sequence, static_cast<int32_t>(added.size()));
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
    Sequence* victim = Victim(draft->plan.step, kForRoom);
    if (victim == nullptr) return false;
    Preempt(victim);
    if (victim == sequence) return false;
  }
  return true;
}

// Of the running sequences whose priority is lower than `priority_above` (a greater number), and of
// which the step being planned has no slice, the one to go. Never the oldest of all; and one that
// was taken in for having waited too long would wait again at once, if it gave way to a priority.
Sequence* Scheduler::Victim(uint64_t step, int32_t priority_above) const {
  const auto may_go = [&](const Sequence* s) {
    return s->planned_step != step && s->request->priority > priority_above &&
           (priority_above == kForRoom || !s->lost_patience);
  };
  return LeastCostly(running_, may_go,
                     [](const Sequence* s) { return -int64_t{s->request->priority}; });
}

void Scheduler::Preempt(Sequence* victim) {
  std::erase(running_, victim);
  line_.CountRunning(*victim, -1);
  victim->state = SequenceState::kWaiting;
  victim->waiting_since = now_;
  if (!victim->lost_patience) victim->patient_since = now_;
  victim->planned = 0;
  victim->start_by = Clock::time_point::min();
  ++victim->preemptions;
  line_.Add(victim);
  ++counters_.preemptions;
  if (victim->steps_in_flight == 0)
    ReleaseSeat(victim);
  else
    draining_blocks_ += victim->table.size();
}

}  // namespace sluice::engine
