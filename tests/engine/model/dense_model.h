#pragma once

#include <cstdint>
#include <vector>

#include "tests/support/small_model.h"

namespace sluice::testing {

// The llama architecture as its papers define it, over the whole sequence at once, in double: no
// cache, no blocks, no views. Logits [T, V] of the tokens.
std::vector<std::vector<double>> DenseLogits(const SmallModel& model,
                                             const std::vector<int32_t>& tokens);

}  // namespace sluice::testing
