#pragma once

#include "kernels/cpu/simd/kernel_table.h"

namespace sluice::kernels::SLUICE_SIMD {

void Quantize(const float* x, int64_t n, Q8Block* out);
void Refine(const float* x, int64_t n, Q8Block* blocks);
void AddRmsNorm(const NormTask& task);
void RmsNorm(float* out, const float* x, const float* weight, int64_t n, float eps);
void GateSilu(float* out, const float* gate, const float* up, int64_t n);
void GateGelu(float* out, const float* gate, const float* up, int64_t n);
void Rope(const RopeTask& task);
void ToHalf(const float* x, int64_t n, uint16_t* out);
void Scale(float* out, const float* x, int64_t n, float factor);
int32_t Argmax(const float* logits, int64_t n);
double SumOfWeights(const float* logits, int64_t n, float largest, float temperature);
int64_t Collect(const float* logits, int64_t n, float threshold, int32_t* ids, int64_t capacity);

}  // namespace sluice::kernels::SLUICE_SIMD
