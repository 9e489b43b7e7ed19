#pragma once

#include <cstdint>
#include <span>

#include "kernels/tensor.h"

namespace sluice::kernels {

// The reference's own activation rows. kF32: cols floats. kQ8: for every 32 values, the last ones
// padded with zeros, two float scales with 32 int8 each.
int64_t ReferenceActivationRowBytes(ActivationFormat format, int64_t cols);

enum class Refinement { kNone, kLargeBlocks };

// Rounds `values` [cols] to the view's format and stores them as its row `row`.
void WriteActivationRow(const ActivationView& out, int64_t row, std::span<const float> values,
                        Refinement refinement);
// The exact values of row `row`: `values` is [cols].
void ReadActivationRow(const ActivationView& in, int64_t row, std::span<double> values);

}  // namespace sluice::kernels
