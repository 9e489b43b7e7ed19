#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/tensor.h"

namespace sluice::kernels {

// Turns `n` elements (a multiple of the format's block; every format but kI32) at `source`, of any
// alignment, into floats. Each result is the format's exact value rounded once to float.
void DequantizeRow(DType dtype, const std::byte* source, float* destination, int64_t n);

}  // namespace sluice::kernels
