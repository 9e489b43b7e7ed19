#include "engine/load_memory.h"

#include <algorithm>
#include <cstdint>
#include <string>

namespace sluice::engine {
namespace {

constexpr int64_t kAutoKvBytes = int64_t{1} << 30;
constexpr int64_t kAutoContexts = 4;

std::string Bytes(int64_t bytes) { return std::to_string(bytes) + " bytes"; }

}  // namespace

absl::StatusOr<MemoryPlan> PlanMemory(const MemoryNeeds& needs) {
  const int64_t context_blocks =
      (int64_t{needs.context_tokens} + needs.block_size - 1) / needs.block_size;
  // A token's place in the KV memory is a 32-bit number.
  const int64_t blocks_max = INT32_MAX / needs.block_size;
  const int64_t fixed = needs.weights_bytes + needs.buffers_bytes;
  const int64_t left = std::max<int64_t>(0, needs.limit_bytes - fixed);

  // KV memory is taken for good, used or not: more than kAutoKvBytes, or a few whole contexts, is
  // for the operator to ask for.
  const int64_t auto_blocks =
      std::max(kAutoKvBytes / needs.block_bytes, kAutoContexts * context_blocks);
  int64_t blocks =
      std::min({context_blocks * needs.running_max, left / needs.block_bytes, auto_blocks});
  if (needs.kv_bytes > 0) {
    blocks = needs.kv_bytes / needs.block_bytes;
    if (needs.kv_bytes > left) {
      return ResourceExhausted("kv memory of " + Bytes(needs.kv_bytes) + " does not fit: with " +
                               Bytes(needs.weights_bytes) + " of weights and " +
                               Bytes(needs.buffers_bytes) + " of buffers the model needs " +
                               Bytes(fixed + needs.kv_bytes) + ", the limit is " +
                               Bytes(needs.limit_bytes));
    }
  }
  if (blocks < context_blocks) {
    const int64_t context_bytes = context_blocks * needs.block_bytes;
    const std::string what = "a context of " + std::to_string(needs.context_tokens) +
                             " tokens needs " + Bytes(context_bytes) + " of kv memory";
    if (needs.kv_bytes > 0) {
      return ResourceExhausted(what + ", but only " + Bytes(needs.kv_bytes) + " are given to it");
    }
    return ResourceExhausted("the model does not fit: " + Bytes(needs.weights_bytes) +
                             " of weights, " + Bytes(needs.buffers_bytes) + " of buffers and " +
                             Bytes(context_bytes) + " of kv memory for one context of " +
                             std::to_string(needs.context_tokens) + " tokens make " +
                             Bytes(fixed + context_bytes) + ", the limit is " +
                             Bytes(needs.limit_bytes));
  }
  MemoryPlan plan;
  plan.weights_bytes = needs.weights_bytes;
  plan.buffers_bytes = needs.buffers_bytes;
  plan.limit_bytes = needs.limit_bytes;
  plan.kv_blocks = static_cast<int32_t>(std::min(blocks, blocks_max));
  plan.kv_bytes = plan.kv_blocks * needs.block_bytes;
  plan.kv_tokens = int64_t{plan.kv_blocks} * needs.block_size;
  return plan;
}

}  // namespace sluice::engine
