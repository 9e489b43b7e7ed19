#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/exec/worker.h"
#include "kernels/backend.h"

namespace sluice::testing {

// The backends that this machine has, by the names used here: "reference", "avx2", "avx512".
std::vector<std::string> BackendNames();
// The fastest of them, or the one that the environment variable SLUICE_TEST_BACKEND names.
std::string BestBackend();
std::unique_ptr<kernels::Backend> MakeBackend(const std::string& name,
                                              const kernels::BackendOptions& options);

struct WorkerSetup {
  std::string backend = BestBackend();
  kernels::ActivationMode activations = kernels::ActivationMode::kF32;
  kernels::DType kv_dtype = kernels::DType::kF32;
  int threads = 2;
  engine::ExecutorLimits limits;  // vocabulary is the model's
};

// A worker over a model file, ready to run. Ends the process with a message when that fails.
std::unique_ptr<engine::Worker> LoadWorker(const std::string& path, const WorkerSetup& setup);

}  // namespace sluice::testing
