#include "tests/support/simulated_worker.h"

#include <algorithm>

namespace sluice::testing {

using engine::kLastSampledToken;
using engine::PlanSlice;
using engine::SliceOutput;
using engine::SliceStatus;
using engine::StepPlan;
using engine::StepResult;

namespace {

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

uint64_t AddToken(uint64_t hash, int32_t token) {
  return Mix(hash ^ static_cast<uint64_t>(static_cast<uint32_t>(token)));
}

std::string Text(const char* what, int64_t slot, int64_t value, int64_t wanted) {
  return std::string(what) + ": slot " + std::to_string(slot) + " has " + std::to_string(value) +
         ", expected " + std::to_string(wanted);
}

}  // namespace

SimulatedWorker::SimulatedWorker(Options options) : options_(std::move(options)) {
  const auto& limits = options_.limits;
  seats_.resize(static_cast<size_t>(limits.slots));
  slots_.resize(static_cast<size_t>(limits.slots));
  cells_.resize(static_cast<size_t>(limits.kv_blocks) * static_cast<size_t>(limits.block_size));
  holders_.assign(static_cast<size_t>(limits.kv_blocks), 0);
  used_.assign(static_cast<size_t>(limits.kv_blocks), 0);
  user_.assign(static_cast<size_t>(limits.kv_blocks), -1);
}

void SimulatedWorker::Submit(StepPlan plan) {
  if (error_.empty()) {
    error_ = CheckPlan(plan);
    if (!error_.empty()) error_ = "step " + std::to_string(plan.step) + ": " + error_;
  }
  queue_.push_back(std::move(plan));
}

std::string SimulatedWorker::CheckPlan(const StepPlan& plan) {
  if (plan.step != submitted_ + 1) return Text("step number", -1, plan.step, submitted_ + 1);
  submitted_ = plan.step;
  if (plan.slices.empty()) return "a plan without slices";
  for (const int32_t slot : plan.releases) {
    if (slot < 0 || slot >= options_.limits.slots) return Text("released slot", slot, 0, 0);
    Slot& seat = seats_[static_cast<size_t>(slot)];
    if (!seat.taken) return Text("release of an empty slot", slot, 0, 1);
    for (const int32_t block : seat.blocks) --holders_[static_cast<size_t>(block)];
    seat = Slot();
  }
  if (std::string error = CheckStarts(plan); !error.empty()) return error;
  if (std::string error = CheckAppends(plan); !error.empty()) return error;
  if (std::string error = CheckCopies(plan); !error.empty()) return error;
  return CheckSlices(plan);
}

std::string SimulatedWorker::CheckStarts(const StepPlan& plan) {
  for (const auto& start : plan.starts) {
    if (start.slot < 0 || start.slot >= options_.limits.slots)
      return Text("started slot", start.slot, 0, 0);
    Slot& seat = seats_[static_cast<size_t>(start.slot)];
    if (seat.taken) return Text("start of a taken slot", start.slot, 1, 0);
    seat.taken = true;
    if (start.prompt_tokens <= 0) return Text("prompt", start.slot, start.prompt_tokens, 1);
    const bool has_history = !start.history.empty();
    if (has_history != start.sampling.UsesPenalties())
      return Text("history", start.slot, has_history, start.sampling.UsesPenalties());
    if (has_history && static_cast<int32_t>(start.history.size()) < start.prompt_tokens)
      return Text("history", start.slot, start.history.size(), start.prompt_tokens);
  }
  return "";
}

std::string SimulatedWorker::CheckAppends(const StepPlan& plan) {
  int32_t begin = 0;
  for (const auto& append : plan.appends) {
    if (append.slot < 0 || append.slot >= options_.limits.slots)
      return Text("append", append.slot, 0, 0);
    Slot& seat = seats_[static_cast<size_t>(append.slot)];
    if (!seat.taken) return Text("append to an empty slot", append.slot, 0, 1);
    if (append.begin != begin || append.count <= 0)
      return Text("append's range", append.slot, append.begin, begin);
    begin += append.count;
    if (begin > static_cast<int32_t>(plan.blocks.size()))
      return Text("append's end", append.slot, begin, plan.blocks.size());
    for (int32_t i = append.begin; i < begin; ++i) {
      const int32_t block = plan.blocks[static_cast<size_t>(i)];
      if (block < 0 || block >= options_.limits.kv_blocks)
        return Text("block id", append.slot, block, options_.limits.kv_blocks);
      ++holders_[static_cast<size_t>(block)];
      seat.blocks.push_back(block);
    }
  }
  if (begin != static_cast<int32_t>(plan.blocks.size()))
    return Text("blocks without an append", -1, plan.blocks.size(), begin);
  return "";
}

std::string SimulatedWorker::CheckWrite(int32_t slot, int32_t block) {
  const auto b = static_cast<size_t>(block);
  if (holders_[b] != 1) return Text("holders of a block written to", slot, holders_[b], 1);
  if (used_[b] > collected_ && user_[b] != slot)
    return Text("block in use by a step in flight", slot, block, user_[b]);
  return "";
}

std::string SimulatedWorker::CheckCopies(const StepPlan& plan) {
  for (const auto& copy : plan.copies) {
    if (copy.from < 0 || copy.from >= options_.limits.kv_blocks || copy.from == copy.to)
      return Text("copied block", -1, copy.from, copy.to);
    if (std::find(plan.blocks.begin(), plan.blocks.end(), copy.to) == plan.blocks.end())
      return Text("copy to a block that is not new", -1, copy.to, 0);
    if (holders_[static_cast<size_t>(copy.to)] != 1)
      return Text("holders of a block copied to", -1, holders_[static_cast<size_t>(copy.to)], 1);
    if (used_[static_cast<size_t>(copy.to)] > collected_)
      return Text("copy to a block in use by a step in flight", -1, copy.to, 0);
  }
  return "";
}

std::string SimulatedWorker::CheckSlices(const StepPlan& plan) {
  const auto& limits = options_.limits;
  std::vector<bool> seen(static_cast<size_t>(limits.slots), false);
  int32_t begin = 0;
  for (const PlanSlice& slice : plan.slices) {
    if (slice.slot < 0 || slice.slot >= limits.slots) return Text("slice", slice.slot, 0, 0);
    Slot& seat = seats_[static_cast<size_t>(slice.slot)];
    if (!seat.taken) return Text("slice of an empty slot", slice.slot, 0, 1);
    if (seen[static_cast<size_t>(slice.slot)]) return Text("second slice", slice.slot, 2, 1);
    seen[static_cast<size_t>(slice.slot)] = true;
    if (slice.count <= 0) return Text("slice's count", slice.slot, slice.count, 1);
    if (slice.token_begin != begin)
      return Text("slice's tokens", slice.slot, slice.token_begin, begin);
    begin += slice.count;
    if (begin > static_cast<int32_t>(plan.tokens.size()))
      return Text("slice's end", slice.slot, begin, plan.tokens.size());
    if (!seat.sliced) seat.computed = slice.first_position;
    seat.sliced = true;
    if (slice.first_position != seat.computed || slice.first_position < 0)
      return Text("first position", slice.slot, slice.first_position, seat.computed);
    seat.computed += slice.count;
    if (seat.computed > limits.context_tokens)
      return Text("context", slice.slot, seat.computed, limits.context_tokens);
    if (seat.computed > static_cast<int32_t>(seat.blocks.size()) * limits.block_size)
      return Text("blocks for the slice", slice.slot, seat.blocks.size() * limits.block_size,
                  seat.computed);
    const int32_t first_written = slice.first_position / limits.block_size;
    for (int32_t i = first_written; i * limits.block_size < seat.computed; ++i) {
      std::string error = CheckWrite(slice.slot, seat.blocks[static_cast<size_t>(i)]);
      if (!error.empty()) return error;
    }
    for (const int32_t block : seat.blocks) {
      used_[static_cast<size_t>(block)] = plan.step;
      user_[static_cast<size_t>(block)] = slice.slot;
    }
  }
  if (begin != static_cast<int32_t>(plan.tokens.size()))
    return Text("tokens without a slice", -1, plan.tokens.size(), begin);
  if (begin > limits.step_tokens) return Text("token budget", -1, begin, limits.step_tokens);
  return "";
}

absl::StatusOr<StepResult> SimulatedWorker::Collect() {
  if (queue_.empty()) return engine::Internal("Collect without a plan");
  StepPlan plan = std::move(queue_.front());
  queue_.pop_front();
  if (options_.before_step) options_.before_step(plan.step);
  if (options_.fail_at_step != 0 && plan.step >= options_.fail_at_step)
    return engine::Internal("simulated device lost at step " + std::to_string(plan.step));

  StepResult result;
  result.step = plan.step;
  if (error_.empty()) {
    for (const int32_t slot : plan.releases) slots_[static_cast<size_t>(slot)] = Slot();
    for (const auto& start : plan.starts) {
      Slot& slot = slots_[static_cast<size_t>(start.slot)];
      slot.taken = true;
      slot.sampling = start.sampling;
      slot.history = start.history;
      slot.prompt_tokens = start.prompt_tokens;
    }
    for (const auto& append : plan.appends) {
      auto& blocks = slots_[static_cast<size_t>(append.slot)].blocks;
      blocks.insert(blocks.end(), plan.blocks.begin() + append.begin,
                    plan.blocks.begin() + append.begin + append.count);
    }
    RunCopies(plan);
    for (const PlanSlice& slice : plan.slices) {
      error_ = RunSlice(plan, slice, &result);
      if (!error_.empty()) break;
    }
    if (!error_.empty()) error_ = "step " + std::to_string(plan.step) + ": " + error_;
  }
  if (!error_.empty()) return engine::Internal("rule of step_plan.h broken: " + error_);
  collected_ = plan.step;
  result.seconds =
      options_.step_seconds + options_.token_seconds * static_cast<double>(plan.tokens.size());
  if (options_.slowness) result.seconds *= options_.slowness(plan.step);
  seconds_ += result.seconds;
  result.spent = std::move(plan);
  return result;
}

void SimulatedWorker::RunCopies(const StepPlan& plan) {
  const int32_t size = options_.limits.block_size;
  for (const auto& copy : plan.copies) {
    std::copy_n(cells_.begin() + int64_t{copy.from} * size, size,
                cells_.begin() + int64_t{copy.to} * size);
  }
}

std::string SimulatedWorker::RunSlice(const StepPlan& plan, const PlanSlice& slice,
                                      StepResult* result) {
  const int32_t block_size = options_.limits.block_size;
  Slot& slot = slots_[static_cast<size_t>(slice.slot)];
  const auto cell_at = [&](int32_t position) -> Cell& {
    const int32_t block = slot.blocks[static_cast<size_t>(position / block_size)];
    return cells_[static_cast<size_t>(block) * static_cast<size_t>(block_size) +
                  static_cast<size_t>(position % block_size)];
  };
  for (int32_t i = 0; i < slice.count; ++i) {
    const int32_t position = slice.first_position + i;
    int32_t token = plan.tokens[static_cast<size_t>(slice.token_begin + i)];
    if (token == kLastSampledToken) {
      // After a row of NaNs there is none, and any will do: its sequence has ended.
      token = std::max(slot.last_sampled, 0);
    } else if (i == 0 && slot.last_sampled >= 0 && token != slot.last_sampled) {
      return Text("token after a sampled one", slice.slot, token, slot.last_sampled);
    }
    if (token < 0 || token >= options_.limits.vocabulary)
      return Text("token id", slice.slot, token, options_.limits.vocabulary);
    if (position < static_cast<int32_t>(slot.history.size()) &&
        slot.history[static_cast<size_t>(position)] != token)
      return Text("token against the history", slice.slot, token,
                  slot.history[static_cast<size_t>(position)]);
    cell_at(position) = {token, position};
  }
  const int32_t known = slice.first_position + slice.count;
  if (slice.output == SliceOutput::kNone) {
    slot.last_sampled = -1;
    return "";
  }
  if (known - slice.generated != slot.prompt_tokens)
    return Text("tokens generated", slice.slot, slice.generated, known - slot.prompt_tokens);

  SampleContext context;
  context.generated = slice.generated;
  context.sampling = &slot.sampling;
  context.first_token = cell_at(0).token;
  for (int32_t position = 0; position < known; ++position) {
    const Cell& cell = cell_at(position);
    if (cell.position != position)
      return Text("position found in the block table", slice.slot, cell.position, position);
    context.prefix_hash = AddToken(context.prefix_hash, cell.token);
  }
  const bool broken = options_.non_finite && options_.non_finite(context);
  slot.last_sampled = broken ? -1 : Sample(context, options_);
  result->slices.push_back(
      {slice.slot, slot.last_sampled, broken ? SliceStatus::kNonFinite : SliceStatus::kOk});
  return "";
}

int32_t SimulatedWorker::Sample(const SampleContext& context, const Options& options) {
  if (const auto it = options.scripts.find(context.first_token); it != options.scripts.end()) {
    if (context.generated < static_cast<int32_t>(it->second.size()))
      return it->second[static_cast<size_t>(context.generated)];
  }
  const engine::SamplingParams& sampling = *context.sampling;
  uint64_t hash = context.prefix_hash;
  if (sampling.temperature > 0) {
    hash = Mix(hash ^ sampling.seed);
    hash = Mix(hash ^ sampling.choice);
    hash = Mix(hash ^ static_cast<uint64_t>(context.generated));
  }
  const auto vocabulary = static_cast<uint64_t>(options.limits.vocabulary);
  int32_t token = static_cast<int32_t>(hash % vocabulary);
  if (context.generated >= sampling.min_tokens) return token;
  const auto& banned = sampling.end_ids;
  while (std::find(banned.begin(), banned.end(), token) != banned.end())
    token = (token + 1) % options.limits.vocabulary;
  return token;
}

std::vector<int32_t> SimulatedWorker::ExpectedTokens(const engine::GenerateRequest& request,
                                                     int32_t choice,
                                                     const std::vector<int32_t>& end_ids,
                                                     int32_t context_tokens,
                                                     const Options& options) {
  std::vector<int32_t> ends = request.stop.token_ids;
  if (!request.stop.ignore_eos) ends.insert(ends.end(), end_ids.begin(), end_ids.end());
  engine::SamplingParams sampling = request.sampling;
  sampling.choice = static_cast<uint32_t>(choice);
  sampling.min_tokens = request.stop.min_tokens;
  sampling.end_ids = ends;

  SampleContext context;
  context.sampling = &sampling;
  context.first_token = request.prompt[0];
  for (const int32_t token : request.prompt)
    context.prefix_hash = AddToken(context.prefix_hash, token);
  const int32_t most = std::min(request.stop.max_tokens,
                                context_tokens - static_cast<int32_t>(request.prompt.size()));
  std::vector<int32_t> tokens;
  while (context.generated < most) {
    if (options.non_finite && options.non_finite(context)) break;
    const int32_t token = Sample(context, options);
    tokens.push_back(token);
    const bool may_stop = context.generated >= request.stop.min_tokens;
    ++context.generated;
    context.prefix_hash = AddToken(context.prefix_hash, token);
    if (may_stop && std::find(ends.begin(), ends.end(), token) != ends.end()) break;
  }
  return tokens;
}

}  // namespace sluice::testing
