#include "server/admin/admin_routes.h"

#include <boost/json.hpp>
#include <memory>
#include <utility>

#include "engine/base/log_text.h"
#include "engine/engine.h"
#include "server/admin/admin_key.h"

namespace sluice::server {
namespace {

namespace json = boost::json;

// More are counted only: an answer has to end some time.
constexpr size_t kSequencesMax = 1000;

json::object ToJson(const engine::SequenceInfo& info) {
  json::object object;
  object["request_id"] = engine::ValidUtf8(info.request_id);
  object["choice"] = info.choice;
  object["tenant"] = engine::ValidUtf8(info.tenant);
  object["priority"] = info.priority;
  object["age_seconds"] = info.age;
  if (!info.running) object["waiting_seconds"] = info.waiting;
  object["prompt_tokens"] = info.prompt_tokens;
  object["cached_tokens"] = info.cached_tokens;
  object["computed_tokens"] = info.computed_tokens;
  object["generated_tokens"] = info.generated_tokens;
  object["tokens_left"] = info.tokens_left;
  object["kv_blocks"] = info.blocks;
  if (info.slot >= 0) object["slot"] = info.slot;
  object["preemptions"] = info.preemptions;
  return object;
}

json::object ToJson(const engine::TenantInfo& info) {
  json::object object;
  object["name"] = engine::ValidUtf8(info.name);
  object["weight"] = info.weight;
  object["served"] = info.served;
  object["running"] = info.running;
  object["waiting"] = info.waiting;
  object["kv_blocks"] = info.blocks;
  return object;
}

json::object ToJson(const engine::EngineState& state) {
  const engine::EngineStats& stats = state.stats;
  json::object object;
  object["running"] = stats.requests_running;
  object["waiting"] = stats.requests_waiting;
  object["steps_in_flight"] = state.steps_in_flight;
  object["steps"] = stats.steps;
  object["preemptions"] = stats.preemptions;
  object["predicted_wait_seconds"] = stats.predicted_wait;
  object["prefill_budget_tokens"] = stats.prefill_budget;
  object["step_cost_error"] = stats.step_cost_error;
  object["kv_blocks"] = {{"total", stats.kv_blocks_total},
                         {"used", stats.kv_blocks_used},
                         {"idle", stats.kv_blocks_idle},
                         {"tokens_each", stats.kv_block_size}};
  json::array running, waiting, tenants;
  for (const auto& sequence : state.sequences) {
    (sequence.running ? running : waiting).push_back(ToJson(sequence));
  }
  for (const auto& tenant : state.tenants) tenants.push_back(ToJson(tenant));
  object["running_sequences"] = std::move(running);
  object["waiting_sequences"] = std::move(waiting);
  object["sequences_left_out"] = state.more_sequences;
  object["tenants"] = std::move(tenants);
  return object;
}

// The answer, made of what each model's engine shows when its turn comes; sent when all have.
struct StateAnswer {
  explicit StateAnswer(std::shared_ptr<Exchange> to) : exchange(std::move(to)) {}
  ~StateAnswer() {
    HttpResponse response;
    response.body = json::serialize(json::object{{"models", std::move(models)}});
    response.headers.emplace_back("Cache-Control", "no-store");
    exchange->Reply(std::move(response));
  }
  const std::shared_ptr<Exchange> exchange;
  json::object models;
};

// The models' engines show themselves one after another, so that one thread at a time writes.
void ShowFrom(const ModelRegistry& registry, size_t index, std::shared_ptr<StateAnswer> answer) {
  if (index == registry.models().size()) return;
  const std::shared_ptr<ServedModel>& model = registry.models()[index];
  const engine::Engine* engine = model->engine.load();
  const auto next = [&registry, index, answer, model](json::value shown) {
    answer->models[model->facts.name] = std::move(shown);
    ShowFrom(registry, index + 1, answer);
  };
  if (engine == nullptr) return next({{"state", "loading"}});
  const bool looks = engine->Look(
      kSequencesMax, [next](const engine::EngineState& state) { next(ToJson(state)); });
  if (!looks) next({{"state", "stopped"}});
}

}  // namespace

void AddAdminRoutes(Router* router, const ModelRegistry* registry, std::string key) {
  router->Add("GET", "/admin/state",
              [registry, key = std::move(key)](std::shared_ptr<Exchange> exchange) {
                if (!NamesKey(exchange->request().Header("authorization"), key)) {
                  HttpResponse refusal =
                      HttpError(401, "the admin key is missing or wrong", "invalid_admin_key");
                  refusal.headers.emplace_back("WWW-Authenticate", "Bearer");
                  return exchange->Reply(std::move(refusal));
                }
                ShowFrom(*registry, 0, std::make_shared<StateAnswer>(std::move(exchange)));
              });
}

}  // namespace sluice::server
