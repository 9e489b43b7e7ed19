#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/tensor.h"

namespace sluice::kernels::testing {

// The values (a multiple of 32) in Q8_0, Q4_0, Q4_1, Q5_0 or Q5_1: each at the nearest quantum,
// with scales that span the block. For making test models.
std::vector<std::byte> QuantizeRow(DType dtype, std::span<const float> values);

}  // namespace sluice::kernels::testing
