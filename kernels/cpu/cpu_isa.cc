#include "kernels/cpu/cpu_isa.h"

#include "kernels/cpu/cpu_backend.h"

namespace sluice::kernels {
namespace {

struct IsaEntry {
  CpuIsa isa;
  std::string_view name;
  const KernelTable* kernels;
  bool (*supported)();  // by the processor, and by the system for its registers
};

bool HasAvx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
}

bool HasAvx512Vnni() {
  return HasAvx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vnni");
}

// Best first.
constexpr IsaEntry kIsas[] = {
    {CpuIsa::kAvx512Vnni, "AVX-512 VNNI", &avx512::kTable, HasAvx512Vnni},
    {CpuIsa::kAvx2, "AVX2", &avx2::kTable, HasAvx2},
};

const IsaEntry& EntryOf(CpuIsa isa) {
  for (const IsaEntry& entry : kIsas) {
    if (entry.isa == isa) return entry;
  }
  return kIsas[0];
}

}  // namespace

std::string_view NameOf(CpuIsa isa) { return EntryOf(isa).name; }
const KernelTable& KernelsFor(CpuIsa isa) { return *EntryOf(isa).kernels; }

std::vector<CpuIsa> SupportedCpuIsas() {
  std::vector<CpuIsa> isas;
  for (const IsaEntry& entry : kIsas) {
    if (entry.supported()) isas.push_back(entry.isa);
  }
  return isas;
}

}  // namespace sluice::kernels
