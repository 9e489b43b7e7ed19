#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/plan/sampling_params.h"

// The meeting point of the planning half, which knows no tensors, and the executing half, which
// knows no requests. Plain values: moved through queues, broadcast to ranks.
//
// A *slot* is a worker's seat for one sequence: block table, sampling parameters, token counts. A
// plan tells what changes in the slots, then which tokens to compute. A worker applies a plan in
// the order of the fields of StepPlan.
namespace sluice::engine {

// In StepPlan::tokens: the token that the worker sampled last for this slot (which the planner may
// not have seen yet).
inline constexpr int32_t kLastSampledToken = -1;

// A sequence takes a slot, which is empty. Its block table starts empty.
struct SlotStart {
  int32_t slot = 0;
  SamplingParams sampling;
  // Every token known so far, when sampling.UsesPenalties() (otherwise empty): the first
  // prompt_tokens of them are the prompt's, the rest were generated before a preemption.
  std::vector<int32_t> history;
  int32_t prompt_tokens = 0;
};

// Blocks added at the end of a slot's block table: StepPlan::blocks[begin, begin + count). Several
// slots may hold the same block; no slice writes in one that two of them hold.
struct BlockAppend {
  int32_t slot = 0;
  int32_t begin = 0;
  int32_t count = 0;
};

// Block `to` becomes a copy of block `from`, for a sequence that writes on in what others share.
struct BlockCopy {
  int32_t from = 0;
  int32_t to = 0;
};

enum class SliceOutput : uint8_t {
  kNone,    // only keys and values are computed
  kSample,  // a token is sampled after the slice's last token
};

// `count` tokens of one slot, at positions first_position and on: StepPlan::tokens[token_begin, +
// count). A plan holds at most one slice a slot.
struct PlanSlice {
  int32_t slot = 0;
  int32_t first_position =
      0;  // tokens of the sequence whose keys and values are in its blocks already
  int32_t token_begin = 0;
  int32_t count = 0;
  SliceOutput output = SliceOutput::kNone;
  int32_t generated = 0;  // tokens generated before the sampled one: the random draw's position
};

struct StepPlan {
  uint64_t step = 0;              // 1, 2, 3...
  std::vector<int32_t> releases;  // slots that become empty
  std::vector<SlotStart> starts;
  std::vector<BlockAppend> appends;  // into `blocks`
  std::vector<BlockCopy> copies;     // in this order, before any slice
  std::vector<PlanSlice> slices;
  std::vector<int32_t> blocks;
  std::vector<int32_t> tokens;  // ids, or kLastSampledToken

  bool empty() const { return releases.empty() && starts.empty() && slices.empty(); }
  // Empty again, its memory kept.
  void Clear() {
    step = 0;
    releases.clear();
    starts.clear();
    appends.clear();
    copies.clear();
    slices.clear();
    blocks.clear();
    tokens.clear();
  }
};

enum class SliceStatus : uint8_t {
  kOk,
  kNonFinite,  // NaN or infinity in the row's logits: no token
};

struct SliceResult {
  int32_t slot = 0;
  int32_t token = -1;
  SliceStatus status = SliceStatus::kOk;
};

struct StepResult {
  uint64_t step = 0;
  std::vector<SliceResult> slices;  // those with output kSample, in the plan's order
  double seconds = 0;               // from taking the plan to having the tokens
  StepPlan spent;                   // the plan that was run: the planner uses its memory again
};

// What an executor can hold, fixed at start-up.
struct ExecutorLimits {
  int32_t slots = 0;           // sequences at once
  int32_t step_tokens = 0;     // most tokens in one plan
  int32_t kv_blocks = 0;       // block ids are 0 .. kv_blocks-1
  int32_t block_size = 0;      // tokens a block
  int32_t context_tokens = 0;  // most tokens of one sequence
  int32_t vocabulary = 0;
};

}  // namespace sluice::engine
