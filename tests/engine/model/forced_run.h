#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "engine/exec/worker.h"

namespace sluice::testing {

// Feeds given tokens to a worker, whatever it would have chosen itself, and shows the logits after
// each of them from token `first_wanted` on: position and [V] logits. Slot 0 is used, from an empty
// cache; the blocks are 0 and on.
void ForcedRun(engine::Worker& worker, std::span<const int32_t> tokens, size_t first_wanted,
               const std::function<void(size_t position, std::span<const float> logits)>& show);

}  // namespace sluice::testing
