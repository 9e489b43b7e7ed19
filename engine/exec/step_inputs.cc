#include "engine/exec/step_inputs.h"

#include <algorithm>
#include <utility>

#include "kernels/check.h"

namespace sluice::engine {
namespace {

int32_t BlocksFor(int32_t tokens, int32_t block_size) {
  return (tokens + block_size - 1) / block_size;
}

struct StepShape {
  int32_t tokens = 0, sequences = 0, samples = 0;
  int32_t query_max = 0, context_max = 0;
};

StepShape ShapeOf(const StepPlan& plan) {
  StepShape shape;
  shape.sequences = static_cast<int32_t>(plan.slices.size());
  for (const PlanSlice& slice : plan.slices) {
    SLUICE_CHECK_GT(slice.count, 0) << "slot " << slice.slot;
    SLUICE_CHECK_GE(slice.first_position, 0) << "slot " << slice.slot;
    shape.tokens += slice.count;
    shape.samples += slice.output == SliceOutput::kSample;
    shape.query_max = std::max(shape.query_max, slice.count);
    shape.context_max = std::max(shape.context_max, slice.first_position + slice.count);
  }
  return shape;
}

size_t StagingBytesOf(const StepShape& shape, int32_t block_size) {
  const auto t = static_cast<size_t>(shape.tokens), b = static_cast<size_t>(shape.sequences);
  const auto blocks = static_cast<size_t>(BlocksFor(shape.context_max, block_size));
  return 4 * StagingArea::BytesFor<int32_t>(t) + StagingArea::BytesFor<int32_t>(b + 1) +
         StagingArea::BytesFor<int32_t>(b) + StagingArea::BytesFor<int32_t>(b * blocks) +
         StagingArea::BytesFor<int32_t>(static_cast<size_t>(shape.samples));
}

kernels::ConstTensorView Ints(const Staged<int32_t>& staged) {
  return kernels::Vector<kernels::ConstTensorView>(
      staged.device, static_cast<int64_t>(staged.host.size()), kernels::DType::kI32);
}

}  // namespace

SlotTable::SlotTable(const ExecutorLimits& limits)
    : limits_(limits), slots_(static_cast<size_t>(limits.slots)) {
  const int32_t blocks = BlocksFor(limits.context_tokens, limits.block_size);
  for (Slot& slot : slots_) slot.blocks.reserve(static_cast<size_t>(blocks));
}

const SlotTable::Slot& SlotTable::At(int32_t slot) const {
  SLUICE_CHECK(slot >= 0 && slot < limits_.slots) << "slot " << slot;
  return slots_[static_cast<size_t>(slot)];
}

void SlotTable::Start(int32_t slot) {
  SLUICE_CHECK(!At(slot).used) << "slot " << slot << " is taken";
  At(slot).used = true;
}

void SlotTable::Release(int32_t slot) {
  SLUICE_CHECK(At(slot).used) << "slot " << slot << " is empty";
  At(slot).used = false;
  At(slot).blocks.clear();
  At(slot).last_token = -1;
}

void SlotTable::Append(const BlockAppend& append, const std::vector<int32_t>& blocks) {
  SLUICE_CHECK(At(append.slot).used) << "slot " << append.slot << " is empty";
  SLUICE_CHECK(append.begin >= 0 && append.count >= 0 &&
               static_cast<size_t>(append.begin) + static_cast<size_t>(append.count) <=
                   blocks.size())
      << "blocks " << append.begin << " + " << append.count << " of " << blocks.size();
  for (int32_t i = append.begin; i < append.begin + append.count; ++i) {
    const int32_t block = blocks[static_cast<size_t>(i)];
    SLUICE_CHECK(block >= 0 && block < limits_.kv_blocks) << "block " << block;
    At(append.slot).blocks.push_back(block);
  }
}

void SlotTable::SetLastToken(int32_t slot, int32_t token) { At(slot).last_token = token; }

size_t StepInputs::StagingBytes(const StepPlan& plan, const ExecutorLimits& limits) {
  return StagingBytesOf(ShapeOf(plan), limits.block_size);
}

size_t StepInputs::StagingBytesMax(const ExecutorLimits& limits) {
  StepShape shape;
  shape.tokens = limits.step_tokens;
  shape.sequences = shape.samples = std::min(limits.slots, limits.step_tokens);
  shape.context_max = limits.context_tokens;
  return StagingBytesOf(shape, limits.block_size);
}

void StepInputs::FillSlice(const PlanSlice& slice, const StepPlan& plan, const SlotTable& slots,
                           const ExecutorLimits& limits, int32_t row, int32_t* ids_out,
                           int32_t* positions_out, int32_t* kv_slots_out) const {
  const std::vector<int32_t>& blocks = slots.blocks(slice.slot);
  const int32_t end = slice.first_position + slice.count;
  SLUICE_CHECK_LE(end, limits.context_tokens) << "slot " << slice.slot;
  SLUICE_CHECK_LE(static_cast<size_t>(BlocksFor(end, limits.block_size)), blocks.size())
      << "slot " << slice.slot << " needs room for " << end << " tokens";
  SLUICE_CHECK(slice.token_begin >= 0 &&
               static_cast<size_t>(slice.token_begin) + static_cast<size_t>(slice.count) <=
                   plan.tokens.size())
      << "tokens " << slice.token_begin << " + " << slice.count << " of " << plan.tokens.size();
  for (int32_t i = 0; i < slice.count; ++i) {
    int32_t token = plan.tokens[static_cast<size_t>(slice.token_begin + i)];
    if (token == kLastSampledToken) token = slots.last_token(slice.slot);
    SLUICE_CHECK(token >= 0 && token < limits.vocabulary)
        << "token " << token << " in slot " << slice.slot;
    const int32_t position = slice.first_position + i;
    ids_out[row + i] = token;
    positions_out[row + i] = position;
    kv_slots_out[row + i] =
        blocks[static_cast<size_t>(position / limits.block_size)] * limits.block_size +
        position % limits.block_size;
  }
}

void StepInputs::Build(const StepPlan& plan, const SlotTable& slots, const ExecutorLimits& limits,
                       StagingArea& staging) {
  const StepShape shape = ShapeOf(plan);
  SLUICE_CHECK(shape.tokens > 0 && shape.tokens <= limits.step_tokens) << shape.tokens << " tokens";
  SLUICE_CHECK_LE(shape.sequences, limits.slots);
  const auto t = static_cast<size_t>(shape.tokens), b = static_cast<size_t>(shape.sequences);
  const auto blocks_max = static_cast<size_t>(BlocksFor(shape.context_max, limits.block_size));
  const auto token_ids = staging.Take<int32_t>(t);
  const auto positions = staging.Take<int32_t>(t);
  const auto kv_slots = staging.Take<int32_t>(t);
  const auto numbers = staging.Take<int32_t>(t);
  const auto query_begin = staging.Take<int32_t>(b + 1);
  const auto first_position = staging.Take<int32_t>(b);
  const auto block_table = staging.Take<int32_t>(b * blocks_max);
  const auto sampled = staging.Take<int32_t>(static_cast<size_t>(shape.samples));

  samples.clear();
  int32_t row = 0;
  for (size_t i = 0; i < b; ++i) {
    const PlanSlice& slice = plan.slices[i];
    query_begin.host[i] = row;
    first_position.host[i] = slice.first_position;
    FillSlice(slice, plan, slots, limits, row, token_ids.host.data(), positions.host.data(),
              kv_slots.host.data());
    const std::vector<int32_t>& blocks = slots.blocks(slice.slot);
    const size_t known = std::min(blocks.size(), blocks_max);
    const auto table = block_table.host.begin() + static_cast<ptrdiff_t>(i * blocks_max);
    std::copy_n(blocks.begin(), known, table);
    std::fill(table + static_cast<ptrdiff_t>(known), table + static_cast<ptrdiff_t>(blocks_max), 0);
    row += slice.count;
    if (slice.output == SliceOutput::kSample) {
      sampled.host[samples.size()] = row - 1;
      samples.push_back({slice.slot, slice.generated});
    }
  }
  query_begin.host[b] = row;
  for (size_t i = 0; i < t; ++i) numbers.host[i] = static_cast<int32_t>(i);

  ids = Ints(token_ids);
  every_row = Ints(numbers);
  sampled_rows = Ints(sampled);
  layout = {};
  layout.sequences = shape.sequences;
  layout.tokens = shape.tokens;
  layout.query_begin = query_begin.device;
  layout.first_position = first_position.device;
  layout.positions = positions.device;
  layout.kv_slots = kv_slots.device;
  layout.block_table = block_table.device;
  layout.blocks_max = static_cast<int32_t>(blocks_max);
  layout.query_max = shape.query_max;
  layout.context_max = shape.context_max;
}

}  // namespace sluice::engine
