#pragma once

#include "kernels/cpu/simd/kernel_table.h"

namespace sluice::kernels::SLUICE_SIMD {

// Rows that share the loads of keys and values: as many accumulators as registers hold.
#if defined(__AVX512F__)
constexpr int kAttentionRows = 12;
#else
constexpr int kAttentionRows = 6;
#endif

void Attend(const AttentionTask& task);
void Merge(const MergeTask& task);

}  // namespace sluice::kernels::SLUICE_SIMD
