#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "engine/base/status.h"
#include "engine/kv/kv_manager.h"
#include "engine/plan/step_plan.h"
#include "engine/scheduler/step_cost.h"
#include "engine/scheduler/step_margin.h"
#include "engine/scheduler/waiting_line.h"
#include "engine/sequence.h"
#include "engine/state.h"
#include "engine/stats.h"

namespace sluice::engine {

// Decides what each step computes. Values in, values out: no thread, no clock, no tensor; all calls
// on the engine thread (or one test's).
//
// Plan and Commit may be called in any interleaving in which steps are committed in the order in
// which they were planned: up to any number of steps may be in flight.
//
// One rule: a step has a budget of tokens, and spends it on letting computed tokens catch up with
// known ones.
//
// Decodes first: every running sequence with one token to compute. What they leave is for prefills;
// if the decoding ones have a target for the time between tokens, only as much of it as keeps the
// step within the target, by a model of step times learnt on the way and what it errs by. Of
// several prefills the oldest gets half, so that it gets on, or a few tokens while other tenants
// are owed more; the rest goes to tenants by what they are owed, of one tenant's to those that are
// most urgent, then to the shortest, so that they need not wait for it (compare the chunked
// prefills of Agrawal et al. 2024, "Sarathi-Serve"). One that waits goes before a partly computed
// one whose tenant is owed less.
//
// Waiting sequences are admitted in the order of WaitingLine while budget is left. A sequence is
// admitted when all its known tokens fit the free blocks, with room to spare for what the running
// ones are expected to grow by; it then gets those blocks at once, of which those whose tokens are
// in memory already it shares. One whose next tokens are just being computed for another waits for
// them, and lets those behind it pass.
//
// A sequence of higher priority that finds no room preempts running ones of lower priority; one
// that finds no slot, of a tenant that has fewer than its share of them, takes one of the tenant
// that has most. When a running sequence finds no block for its next token, another is preempted:
// of the lowest priority there is, one that was preempted seldom and has least to compute anew. The
// oldest is never preempted while another runs, and alone it always fits, so all get on.
class Scheduler {
 public:
  struct Options {
    int32_t running_max = 64;      // sequences with a slot
    int32_t step_tokens = 256;     // token budget of a step
    std::vector<int32_t> end_ids;  // tokens that end an answer, unless it ignores them
    bool share_prefixes = true;    // keep computed blocks for sequences that begin alike
    int32_t prefills_max = 8;      // prompts that are partly computed at once
    // Seconds between two tokens of a decoding sequence that a step should keep to; 0: no target.
    double inter_token_target = 0;
    // That a step spends on prefills, whatever the target, and on the oldest, whatever others are
    // owed.
    int32_t prefill_tokens_min = 4;
    // Seconds from a request's arrival to its first token; 0: no target.
    double first_token_target = 0;
    WaitingLine::Options line;
  };
  // The options are bounded by the limits; a step's budget bounds the running sequences, too, so
  // that each can decode in every step.
  Scheduler(const ExecutorLimits& limits, Options options);
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // A new sequence at the end of the queue. `id` is not in use; the request is valid for
  // context_tokens().
  void Add(uint64_t id, std::shared_ptr<const GenerateRequest> request, int32_t choice);
  // Ends a sequence at whatever point it is, and tells so by an event. Ids that have ended already
  // are ignored.
  void Finish(uint64_t id, FinishReason reason, Clock::time_point now,
              std::vector<SequenceEvent>* events);
  // Ends all sequences; `error` goes with kError.
  void FinishAll(FinishReason reason, std::shared_ptr<const std::string> error,
                 Clock::time_point now, std::vector<SequenceEvent>* events);

  // The next step. Empty when there is nothing to compute before a step in flight is committed or a
  // sequence is added; an empty plan needs no Commit.
  StepPlan Plan(Clock::time_point now);
  // Ends the sequences whose deadline has passed. To be called before Plan.
  void Expire(Clock::time_point now, std::vector<SequenceEvent>* events);
  // Takes in the result of the oldest step in flight and appends what became of its sequences.
  // Internal, with nothing changed, when the result does not belong to that step.
  absl::Status Commit(StepResult result, Clock::time_point now, std::vector<SequenceEvent>* events);

  bool has_sequences() const { return !running_.empty() || !line_.empty(); }
  int32_t steps_in_flight() const { return static_cast<int32_t>(in_flight_.size()); }
  int32_t context_tokens() const { return context_tokens_; }
  EngineStats stats() const;
  // With at most so many sequences.
  EngineState State(Clock::time_point now, size_t sequences_max) const;

  // Internal, saying what, unless everything that always holds does. For tests: linear in blocks
  // and sequences.
  absl::Status CheckIntegrity() const;

 private:
  struct PlannedSlice {
    Sequence* sequence;
    int32_t first;
    int32_t count;
    bool sampled;
  };
  struct InFlightStep {
    uint64_t step = 0;
    std::vector<PlannedSlice> slices;  // as in the plan
    StepWork work;
    int32_t prefill_tokens = 0;
    double filled_target = 0;  // seconds; what the step was planned to fill; 0: nothing
  };
  struct Draft {
    StepPlan plan;
    InFlightStep record;
    int32_t budget = 0;
    Clock::time_point now;
    bool blocks_short = false;  // a running sequence found no block: nobody is admitted
    int32_t passed = 0;         // waiting ones that can't be admitted yet
    int32_t prefills = 0;       // sequences whose prompt this step leaves partly computed
    double target = 0;          // seconds; of the decoding sequences, the shortest; 0: none
  };

  void SetTargets(Sequence* sequence) const;
  void PlanDecodes(Draft* draft);
  void PlanPrefills(Draft* draft);
  void PlanPrefillInOrder(Sequence* sequence, Draft* draft);
  void PlanPrefill(Sequence* sequence, int32_t budget, Draft* draft);
  void SetPrefillBudget(Draft* draft) const;
  void AdmitWaiting(Draft* draft, const Sequence* other);
  bool IsOwedMore(const Sequence& sequence, const Sequence& other) const;
  auto OrderOfPrefill(const Sequence& sequence) const {
    return std::tuple(line_.RankOf(sequence), UrgencyOf(sequence, now_), sequence.start_by,
                      sequence.pending(), sequence.order);
  }
  void MakeRoomForFirst();
  void FindPrefix(const Sequence& sequence);
  bool HasSlot() const;
  bool HasRoom(const Sequence& sequence) const;
  int32_t ExpectedGrowth() const;
  void Admit(Sequence* sequence, Draft* draft);
  void CountFound(Sequence* sequence);
  void AddSlice(Sequence* sequence, int32_t count, Draft* draft);
  void AddBlocks(const Sequence& sequence, int32_t old_size, Draft* draft);
  bool GrowOrPreempt(Sequence* sequence, int32_t tokens, Draft* draft);
  Sequence* Victim(uint64_t step, int32_t priority_above) const;
  Sequence* VictimOfFairness(const Sequence& first) const;
  void Preempt(Sequence* victim);

  // Error unless it is what the oldest step in flight has to give.
  absl::Status CheckResult(const StepResult& result) const;
  void CommitSlice(const PlannedSlice& slice, const SliceResult* result, Clock::time_point now,
                   std::vector<SequenceEvent>* events);
  void TakeToken(Sequence* sequence, const SliceResult& result, Clock::time_point now,
                 std::vector<SequenceEvent>* events);
  double PredictedWait() const;
  double PromptRate() const;
  void CountComputed(const PlannedSlice& slice);
  void Publish(const PlannedSlice& slice);
  void End(Sequence* sequence);
  void ReleaseSeat(Sequence* sequence);
  void Sweep();

  absl::Status CheckQueues() const;
  absl::Status CheckAccounts() const;
  absl::Status CheckSeats() const;

  const ExecutorLimits limits_;
  const Options options_;
  const int32_t context_tokens_;
  const int32_t running_max_;
  const int32_t step_tokens_;
  KvManager kv_;

  std::unordered_map<uint64_t, std::unique_ptr<Sequence>> sequences_;
  std::vector<Sequence*> running_;  // by order
  WaitingLine line_;
  std::multimap<Clock::time_point, uint64_t> deadlines_;
  std::vector<int32_t> free_slots_;
  std::vector<int32_t> releases_;  // slots to be named in the next plan
  // Ended since the last Sweep, which takes them out of the queues all at once.
  std::vector<Sequence*> ended_;
  bool running_changed_ = false;
  bool waiting_changed_ = false;
  // Blocks of sequences that no longer run but have steps in flight: they will be free soon.
  int32_t draining_blocks_ = 0;

  std::vector<InFlightStep> in_flight_;  // oldest first; few
  // Buffers of committed steps: a step allocates nothing that the one before it had room for.
  std::vector<std::vector<PlannedSlice>> spare_slices_;
  std::vector<StepPlan> spare_plans_;
  PrefixMatch match_;                // of the sequence looked at
  std::vector<Sequence*> prefills_;  // of the step being planned
  StepCostModel cost_;
  StepMargin margin_;
  // Of the sequences that ended lately: tokens generated, and seconds from first planned to the
  // end.
  double mean_generated_ = 0;
  double mean_seat_seconds_ = 0;
  double mean_prefill_rate_ = 0;  // tokens a second, in steps that had some
  double mean_missing_ = 1;       // of the tokens of those taken in, the share not found in memory
  Clock::time_point now_;         // of the last call that told it
  uint64_t last_step_ = 0;
  uint64_t last_order_ = 0;
  EngineStats counters_;
};

}  // namespace sluice::engine
