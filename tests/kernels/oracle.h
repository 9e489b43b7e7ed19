#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/ops.h"
#include "tests/kernels/device.h"

namespace sluice::kernels::testing {

// What the reference itself is compared with: plain loops in double on plain arrays, written apart
// from it.

// The values that Q8 holds for `x`, by the definition at ActivationFormat.
std::vector<double> Q8Values(std::span<const float> x);
// For each value the distance between neighbouring Q8 values of its block of 32, unrefined.
std::vector<double> Q8Steps(std::span<const float> x);
// x as an activation of this format holds it.
std::vector<double> ActivationValues(ActivationFormat format, std::span<const float> x);

// [rows] = weight [rows, cols] * x [cols].
std::vector<float> OracleProduct(const RawWeight& weight, std::span<const double> x);
std::vector<float> OracleRmsNorm(std::span<const float> x, std::span<const float> weight,
                                 float eps);
// [F] of gate_up [2F].
std::vector<float> OracleGated(std::span<const float> gate_up, GateKind kind);
// A head turned to `position`, with `rope_dim` elements rotated at base 10000.
std::vector<float> OracleRotate(std::span<const float> head, int64_t position, int64_t rope_dim,
                                RopePairs pairs);
// cosine and sine [positions, rope_dim / 2, 2] for it.
std::vector<float> RopeTable(int64_t positions, int64_t rope_dim);

}  // namespace sluice::kernels::testing
