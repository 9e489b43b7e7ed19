#pragma once

#include <cstdint>
#include <vector>

#include "engine/model/decoder.h"
#include "engine/plan/step_plan.h"
#include "engine/sample/sampler.h"
#include "engine/sample/staging_area.h"

namespace sluice::engine {

// What a worker knows of its slots' sequences besides the sampler's part: block tables and the
// token sampled last. Plans are trusted: one that contradicts this is our bug and CHECKs.
class SlotTable {
 public:
  explicit SlotTable(const ExecutorLimits& limits);

  void Start(int32_t slot);
  void Release(int32_t slot);
  void Append(const BlockAppend& append, const std::vector<int32_t>& blocks);
  void SetLastToken(int32_t slot, int32_t token);

  const std::vector<int32_t>& blocks(int32_t slot) const { return At(slot).blocks; }
  int32_t last_token(int32_t slot) const { return At(slot).last_token; }  // -1: none yet

 private:
  struct Slot {
    bool used = false;
    std::vector<int32_t> blocks;
    int32_t last_token = -1;
  };
  const Slot& At(int32_t slot) const;
  Slot& At(int32_t slot) { return const_cast<Slot&>(std::as_const(*this).At(slot)); }

  const ExecutorLimits limits_;
  std::vector<Slot> slots_;
};

// A plan's slices as the arrays that the model reads. Rows are in the plan's order.
struct StepInputs {
  kernels::ConstTensorView ids;           // [T] i32
  kernels::AttentionLayout layout;        // T tokens, a sequence a slice
  kernels::ConstTensorView every_row;     // [T] i32: 0, 1, 2...
  kernels::ConstTensorView sampled_rows;  // [S] i32: the last row of each slice with kSample
  std::vector<SampleRow> samples;         // [S] the slots they belong to

  // Staging bytes that Build takes for a plan, and for the largest one.
  static size_t StagingBytes(const StepPlan& plan, const ExecutorLimits& limits);
  static size_t StagingBytesMax(const ExecutorLimits& limits);
  // Fills `staging` and this. The plan's starts and appends have been applied to `slots`.
  void Build(const StepPlan& plan, const SlotTable& slots, const ExecutorLimits& limits,
             StagingArea& staging);

 private:
  void FillSlice(const PlanSlice& slice, const StepPlan& plan, const SlotTable& slots,
                 const ExecutorLimits& limits, int32_t row, int32_t* ids_out,
                 int32_t* positions_out, int32_t* kv_slots_out) const;
};

}  // namespace sluice::engine
