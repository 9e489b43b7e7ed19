#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "kernels/backend.h"

namespace sluice::kernels {

enum class CpuIsa { kAvx2, kAvx512Vnni };
std::string_view NameOf(CpuIsa isa);

// What this processor (and the operating system) can run, best first; empty when not even AVX2 is
// there.
std::vector<CpuIsa> SupportedCpuIsas();

// The fast backend with the given instruction set, which must be supported.
std::unique_ptr<Backend> CreateCpuBackend(const BackendOptions& options, CpuIsa isa);

}  // namespace sluice::kernels
