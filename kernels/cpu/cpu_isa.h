#pragma once

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/simd/kernel_table.h"

namespace sluice::kernels {

const KernelTable& KernelsFor(CpuIsa isa);

}  // namespace sluice::kernels
