#include "kernels/cpu/simd/attention.h"
#include "kernels/cpu/simd/kernel_table.h"
#include "kernels/cpu/simd/matmul_f32.h"
#include "kernels/cpu/simd/matmul_q8.h"
#include "kernels/cpu/simd/rows.h"
#include "kernels/cpu/simd/vec.h"

namespace sluice::kernels::SLUICE_SIMD {

const KernelTable kTable = {
    .lanes = kLanes,
#if defined(__AVX512F__)
    .unsigned_q8 = true,
#else
    .unsigned_q8 = false,
#endif
    .q8_columns = kQ8Columns,
    .attention_rows = kAttentionRows,
    .f32_scratch_floats = kDepth * kLanes * kPanelsMax,
    .matmul_q8 = {MatMulQ8_0, MatMulQ4_0, MatMulQ4_1},
    .matmul_f32 = {MatMulF32, MatMulF16, MatMulBF16, MatMulF32Q8_0, MatMulF32Q4_0, MatMulF32Q4_1,
                   MatMulF32Raw},
    .quantize = Quantize,
    .refine = Refine,
    .rms_norm = RmsNorm,
    .add_rms_norm = AddRmsNorm,
    .gate_silu = GateSilu,
    .gate_gelu = GateGelu,
    .rope = Rope,
    .to_half = ToHalf,
    .scale = Scale,
    .attend = Attend,
    .merge = Merge,
    .argmax = Argmax,
    .collect = Collect,
    .sum_of_weights = SumOfWeights,
};

}  // namespace sluice::kernels::SLUICE_SIMD
