#include "server/models/checks.h"

#include "server/base/clip.h"

namespace sluice::server {

absl::Status CheckReady(const Readiness::Snapshot& now) {
  switch (now.state) {
    case Readiness::State::kReady:
    case Readiness::State::kLameDuck:
      return absl::OkStatus();
    case Readiness::State::kLoading:
      return engine::Unavailable("the model is still loading (" + now.stage + " " +
                                 std::to_string(static_cast<int>(now.fraction * 100)) + "%)");
    case Readiness::State::kDraining:
      return engine::Unavailable("the server is shutting down");
    case Readiness::State::kFailed:
      break;
  }
  return engine::Unavailable("the engine has failed; the server is about to end");
}

absl::StatusOr<std::shared_ptr<ServedModel>> FindModel(const ModelRegistry& registry,
                                                       const std::string& name) {
  if (std::shared_ptr<ServedModel> model = registry.Find(name)) return model;
  return engine::NotFound("model: there is no \"" + Clip(name, 128) +
                          "\" here; served: " + registry.Names());
}

absl::Status CheckRoom(const ServedModel& model, int64_t answers) {
  const engine::EngineStats stats = model.engine.load()->stats();
  if (stats.requests_waiting == 0 || stats.requests_waiting + answers <= model.facts.waiting_max) {
    return absl::OkStatus();
  }
  return engine::ResourceExhausted("too many requests: " + std::to_string(stats.requests_waiting) +
                                   " answers wait, at most " +
                                   std::to_string(model.facts.waiting_max) + " may");
}

int RetryAfterSeconds(const absl::Status& status, const ServedModel* model, int answers) {
  if (const int seconds = engine::RetryAfterOf(status); seconds > 0) return seconds;
  if (absl::IsResourceExhausted(status)) {
    engine::Engine* engine = model == nullptr ? nullptr : model->engine.load();
    return engine == nullptr ? 1 : engine->AppointRetry(answers);
  }
  return absl::IsUnavailable(status) ? 1 : 0;
}

}  // namespace sluice::server
