#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/plan/step_plan.h"
#include "engine/sample/staging_area.h"
#include "kernels/backend.h"
#include "kernels/sampling_batch.h"

namespace sluice::engine {

// One row of logits to be turned into a token.
struct SampleRow {
  int32_t slot = 0;
  int32_t generated = 0;  // tokens generated before this one
};

// Turns rows of logits into tokens, each by its slot's parameters. Keeps no state of randomness (a
// draw is a function of seed, choice and position); for slots with penalties it keeps how often
// each token was seen. Used by one thread, the backend's.
class Sampler {
 public:
  Sampler(int32_t slots, int32_t vocabulary);

  void Start(const SlotStart& start);
  void Release(int32_t slot);

  // Staging bytes that Prepare takes for these rows.
  size_t StagingBytes(std::span<const SampleRow> rows) const;
  // Staging bytes of `rows` rows with full histories of `history` tokens and usual biases.
  static size_t StagingBytesMax(int64_t rows, int64_t history);
  // The rows' parameters as arrays, to be read once the staging area has been sent.
  kernels::SamplingBatch Prepare(std::span<const SampleRow> rows, StagingArea& staging) const;
  // Takes in what was sampled for the rows: counts the tokens of slots with penalties.
  void Commit(std::span<const SampleRow> rows, std::span<const int32_t> ids);

 private:
  struct Seen {
    std::vector<int32_t> tokens;                 // each once, in order of first appearance
    std::vector<int32_t> generated;              // times generated
    std::unordered_map<int32_t, int32_t> index;  // token -> place in the above
    void Add(int32_t token, int32_t generated_times);
  };
  struct Slot {
    bool used = false;
    SamplingParams params;
    Seen seen;  // filled only when params.UsesPenalties()
  };
  // Whether end tokens are forbidden for this row.
  static bool BansEnds(const Slot& slot, const SampleRow& row) {
    return row.generated < slot.params.min_tokens && !slot.params.end_ids.empty();
  }
  const Slot& SlotOf(int32_t slot) const;
  void PrepareRules(std::span<const SampleRow> rows, StagingArea& staging,
                    kernels::SamplingBatch& batch) const;

  int32_t vocabulary_;
  std::vector<Slot> slots_;
};

}  // namespace sluice::engine
