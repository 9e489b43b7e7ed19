#pragma once

#include <memory>

#include "engine/base/status.h"
#include "engine/load.h"
#include "kernels/backend.h"

namespace sluice::engine {

// The backend that the options ask for: with kAuto the fastest that this processor runs, else the
// reference. InvalidArgument when it can't be had, with what can.
absl::StatusOr<std::unique_ptr<kernels::Backend>> CreateBackend(const ModelOptions& options);

}  // namespace sluice::engine
