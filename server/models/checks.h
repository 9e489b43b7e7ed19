#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/base/status.h"
#include "server/models/model_registry.h"
#include "server/models/readiness.h"
#include "server/models/served_model.h"

namespace sluice::server {

// What every dialect asks before it does any work for a request.

// Unavailable, with the reason, unless the daemon is ready.
absl::Status CheckReady(const Readiness::Snapshot& now);

// NotFound names what is served. An empty name means the only model there is.
absl::StatusOr<std::shared_ptr<ServedModel>> FindModel(const ModelRegistry& registry,
                                                       const std::string& name);

// ResourceExhausted while the engine's queue is full: known before any text is tokenised. The
// model's engine must be there.
absl::Status CheckRoom(const ServedModel& model, int64_t answers);

// Seconds after which a caller that got `status` may try again with a request for `answers`; 0:
// that status does not pass. To be asked once for each refusal. `model` may be null.
int RetryAfterSeconds(const absl::Status& status, const ServedModel* model, int answers = 1);

}  // namespace sluice::server
