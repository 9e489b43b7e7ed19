#pragma once

#include <cstdint>

#include "engine/base/status.h"
#include "engine/load.h"

namespace sluice::engine {

// What a model needs and what there is, in bytes.
struct MemoryNeeds {
  int64_t weights_bytes = 0;
  int64_t buffers_bytes = 0;
  int64_t block_bytes = 0;  // of one KV block, all layers
  int32_t block_size = 0;   // tokens
  int32_t context_tokens = 0;
  int32_t running_max = 0;
  int64_t kv_bytes = 0;  // wished for; 0: what running_max contexts take, as far as it fits and at
                         // most 1 GiB or four contexts, whichever is more
  int64_t limit_bytes = 0;  // what may be used in all
};

// Divides the memory. ResourceExhausted, with the bytes needed and found, when weights, buffers and
// the KV of one full context don't fit the limit, or the wished KV memory doesn't.
absl::StatusOr<MemoryPlan> PlanMemory(const MemoryNeeds& needs);

}  // namespace sluice::engine
