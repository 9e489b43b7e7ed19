#include "tests/support/model_worker.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "engine/model/gguf.h"
#include "engine/model/model_config.h"
#include "engine/model/weights.h"
#ifdef SLUICE_TEST_CPU_BACKEND
#include "kernels/cpu/cpu_backend.h"
#endif

namespace sluice::testing {
namespace {

template <typename T>
T OrDie(absl::StatusOr<T> value) {
  if (!value.ok()) {
    std::fprintf(stderr, "%s\n", engine::Message(value.status()).c_str());
    std::abort();
  }
  return std::move(value).value();
}

#ifdef SLUICE_TEST_CPU_BACKEND
std::string ShortName(kernels::CpuIsa isa) {
  return isa == kernels::CpuIsa::kAvx2 ? "avx2" : "avx512";
}
#endif

}  // namespace

std::vector<std::string> BackendNames() {
  std::vector<std::string> names{"reference"};
#ifdef SLUICE_TEST_CPU_BACKEND
  for (const kernels::CpuIsa isa : kernels::SupportedCpuIsas()) names.push_back(ShortName(isa));
#endif
  return names;
}

std::string BestBackend() {
  if (const char* name = std::getenv("SLUICE_TEST_BACKEND")) return name;
  const std::vector<std::string> names = BackendNames();
  return names.size() > 1 ? names[1] : names[0];  // the instruction sets come best first
}

std::unique_ptr<kernels::Backend> MakeBackend(const std::string& name,
                                              const kernels::BackendOptions& options) {
#ifdef SLUICE_TEST_CPU_BACKEND
  for (const kernels::CpuIsa isa : kernels::SupportedCpuIsas()) {
    if (ShortName(isa) == name) return kernels::CreateCpuBackend(options, isa);
  }
#endif
  if (name != "reference") {
    std::fprintf(stderr, "no backend '%s' here\n", name.c_str());
    std::abort();
  }
  return kernels::CreateReferenceBackend(options);
}

std::unique_ptr<engine::Worker> LoadWorker(const std::string& path, const WorkerSetup& setup) {
  const auto file = OrDie(engine::GgufFile::Open(path));
  engine::Worker::Parts parts;
  parts.config = OrDie(engine::ModelConfigFromGguf(*file));
  const auto plan = OrDie(engine::WeightPlan::Create(*file, parts.config));
  parts.backend = MakeBackend(setup.backend, {setup.activations, setup.threads});
  parts.weights = OrDie(plan.Load(*parts.backend, {}));
  return OrDie(engine::Worker::Create(std::move(parts), plan, setup.limits, setup.kv_dtype));
}

}  // namespace sluice::testing
