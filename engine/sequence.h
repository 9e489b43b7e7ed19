#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/kv/block_table.h"
#include "engine/plan/sampling_params.h"
#include "engine/request.h"

namespace sluice::engine {

enum class SequenceState : uint8_t {
  kWaiting,   // in the queue; after a preemption perhaps with steps still in flight
  kRunning,   // holds a slot and is planned
  kRetiring,  // has ended, but steps in flight still name it; what they compute is dropped
  kFinished,  // about to be deleted
};

// What the scheduler tells about a sequence: a token, its end, or both at once. Each sequence has
// exactly one event whose `finish` is not kNone, and it is the last one.
struct SequenceEvent {
  uint64_t id = 0;
  int32_t token = -1;  // -1: none
  FinishReason finish = FinishReason::kNone;
  bool hidden = false;      // the token ended the sequence: its text is not part of the answer
  int32_t stop_token = -1;  // the one of StopParams::token_ids that ended it
  Clock::time_point time;
  Clock::time_point scheduled;               // when the sequence was first planned
  int32_t cached_tokens = 0;                 // of its prompt, found in memory then
  std::shared_ptr<const std::string> error;  // with kError
};

// One answer in the making. Owned and changed by the Scheduler alone, on the engine thread; never
// seen outside it.
//
// Positions: prompt, then generated tokens. *Known* tokens have values; *planned* is how many
// positions have, or will have once the steps in flight are done, their keys and values in the
// blocks. Each step lets planned catch up with known; that is prefill, decode and resumption alike.
class Sequence {
 public:
  // `end_ids`: tokens that end every answer of the model; left out when the request ignores them.
  // `context_tokens`: most positions of one sequence, more than the prompt has.
  Sequence(uint64_t id_in, std::shared_ptr<const GenerateRequest> request_in, int32_t choice_in,
           std::span<const int32_t> end_ids, int32_t context_tokens);

  const uint64_t id;
  const std::shared_ptr<const GenerateRequest> request;
  const int32_t choice;

  SequenceState state = SequenceState::kWaiting;
  uint64_t order = 0;  // place in the line: smaller came earlier
  BlockTable table;
  int32_t slot = -1;
  int32_t planned = 0;
  int32_t steps_in_flight = 0;    // plans not yet committed that have a slice of this sequence
  int32_t samples_in_flight = 0;  // of those, with a token to come
  int32_t computed = 0;           // positions whose keys and values are known to be in the blocks
  int32_t computed_high = 0;      // most positions ever computed: below it, work is done again
  int32_t cached_tokens = 0;      // of the prompt, found in memory when first planned
  bool faulty = false;            // its contents of the blocks are in doubt
  int32_t tenant = 0;             // its account in the WaitingLine
  int32_t preemptions = 0;
  uint64_t planned_step = 0;   // the last step with a slice of it
  int32_t tokens_in_line = 0;  // known when it was put there
  Clock::time_point waiting_since;
  Clock::time_point patient_since;  // when its patience began
  bool lost_patience = false;       // it was taken in for that, and gives way to no priority
  // The latest time to begin so that the first token is in time; max: it has no target, min: it has
  // run already and must go on.
  Clock::time_point start_by = Clock::time_point::max();
  double inter_token_target = 0;  // seconds; 0: none
  bool was_planned = false;
  Clock::time_point scheduled;

  int32_t prompt_tokens() const { return static_cast<int32_t>(request->prompt.size()); }
  int32_t generated() const { return known() - prompt_tokens(); }
  int32_t known() const { return static_cast<int32_t>(tokens_.size()); }
  // The first `count` known tokens.
  std::span<const int32_t> Tokens(int32_t count) const {
    return std::span(tokens_).first(static_cast<size_t>(count));
  }
  // Positions that a plan made now could compute: known ones and those the steps in flight will
  // make known. 0 also when the steps in flight must end the sequence.
  int32_t pending() const {
    if (generated() + samples_in_flight >= generated_max_) return 0;
    return known() + samples_in_flight - planned;
  }

  // Most tokens that it may still generate.
  int32_t left() const { return generated_max_ - generated(); }
  // Makes room for them, so that Append allocates nothing.
  void ReserveMost() { tokens_.reserve(static_cast<size_t>(known() + left())); }

  // Appends the tokens of positions [first, first + count) to `out`: ids, or kLastSampledToken for
  // the one that a step in flight is to sample.
  void CopyTokens(int32_t first, int32_t count, std::vector<int32_t>* out) const;
  // The parameters as a worker needs them, with what depends on the sequence filled in.
  SamplingParams Sampling() const;

  // Takes in the next token and says in `event` (token, finish, hidden, stop_token) what it means.
  void Append(int32_t token, SequenceEvent* event);

 private:
  std::vector<int32_t> tokens_;    // known: the prompt's and the generated ones
  std::vector<int32_t> end_ids_;   // sorted
  std::vector<int32_t> stop_ids_;  // sorted
  int32_t generated_max_;
};

// In the line: by order.
inline bool Earlier(const Sequence* a, const Sequence* b) { return a->order < b->order; }

}  // namespace sluice::engine
