#pragma once

#include "kernels/cpu/simd/kernel_table.h"

namespace sluice::kernels::SLUICE_SIMD {

// Columns (of K) unpacked at a time, and panels side by side: what a worker's scratch must hold.
constexpr int64_t kDepth = 256;
constexpr int kPanelsMax = 8;

void MatMulF32(const MatMulTask& task);
void MatMulF16(const MatMulTask& task);
void MatMulBF16(const MatMulTask& task);
void MatMulF32Q8_0(const MatMulTask& task);
void MatMulF32Q4_0(const MatMulTask& task);
void MatMulF32Q4_1(const MatMulTask& task);
void MatMulF32Raw(const MatMulTask& task);

}  // namespace sluice::kernels::SLUICE_SIMD
