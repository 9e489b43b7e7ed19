#pragma once

#include "kernels/cpu/simd/kernel_table.h"

namespace sluice::kernels::SLUICE_SIMD {

// Columns of a tile at most: what the registers hold beside eight vectors of weights.
#if defined(__AVX512F__)
constexpr int kQ8Columns = 12;
#else
constexpr int kQ8Columns = 4;
#endif

void MatMulQ8_0(const MatMulTask& task);
void MatMulQ4_0(const MatMulTask& task);
void MatMulQ4_1(const MatMulTask& task);

}  // namespace sluice::kernels::SLUICE_SIMD
