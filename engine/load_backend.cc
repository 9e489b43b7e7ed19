#include "engine/load_backend.h"

#include <string>
#include <vector>

#include "engine/base/log.h"
#include "engine/base/system.h"
#include "kernels/cpu/cpu_backend.h"

namespace sluice::engine {
namespace {

constexpr int32_t kThreadsMax = 1024;

// The names of the option, as in ModelOptions::isa.
std::string_view OptionName(kernels::CpuIsa isa) {
  switch (isa) {
    case kernels::CpuIsa::kAvx2:
      return "avx2";
    case kernels::CpuIsa::kAvx512Vnni:
      return "avx512";
  }
  return "";
}

}  // namespace

absl::StatusOr<std::unique_ptr<kernels::Backend>> CreateBackend(const ModelOptions& options) {
  if (options.threads < 0 || options.threads > kThreadsMax) {
    return InvalidArgument("threads: " + std::to_string(options.threads) + " is not in [0, " +
                           std::to_string(kThreadsMax) + "]");
  }
  kernels::BackendOptions backend;
  backend.activations = options.activations == ActivationChoice::kInt8
                            ? kernels::ActivationMode::kInt8
                            : kernels::ActivationMode::kF32;
  backend.threads = options.threads > 0 ? options.threads : ComputeThreads();
  if (options.backend == BackendChoice::kReference) {
    return kernels::CreateReferenceBackend(backend);
  }
  std::string known;
  for (const kernels::CpuIsa isa : kernels::SupportedCpuIsas()) {  // the best comes first
    if (options.isa == "auto" || options.isa == OptionName(isa)) {
      return kernels::CreateCpuBackend(backend, isa);
    }
    known += (known.empty() ? "" : ", ") + std::string(OptionName(isa));
  }
  if (options.isa != "auto" || options.backend == BackendChoice::kCpu) {
    return InvalidArgument("isa: '" + options.isa + "' is not supported by this processor" +
                           (known.empty() ? "; it has not even avx2" : "; it has: " + known));
  }
  SLUICE_LOG(kWarning) << "this processor has no AVX2: using the slow reference backend";
  return kernels::CreateReferenceBackend(backend);
}

}  // namespace sluice::engine
