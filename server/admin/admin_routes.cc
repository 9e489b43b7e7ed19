#include "server/admin/admin_routes.h"

#include <boost/json.hpp>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/base/log_text.h"
#include "engine/engine.h"
#include "server/admin/admin_key.h"

namespace sluice::server {
namespace {

namespace json = boost::json;

// More are counted only: an answer has to end some time.
constexpr size_t kSequencesMax = 1000;

json::object ToJson(const engine::SequenceInfo& info) {
  json::object object = {{"request_id", engine::ValidUtf8(info.request_id)},
                         {"choice", info.choice},
                         {"tenant", engine::ValidUtf8(info.tenant)},
                         {"priority", info.priority},
                         {"age_seconds", info.age},
                         {"prompt_tokens", info.prompt_tokens},
                         {"cached_tokens", info.cached_tokens},
                         {"computed_tokens", info.computed_tokens},
                         {"generated_tokens", info.generated_tokens},
                         {"tokens_left", info.tokens_left},
                         {"kv_blocks", info.blocks},
                         {"preemptions", info.preemptions}};
  if (info.slot >= 0) object["slot"] = info.slot;
  if (!info.running) object["waiting_seconds"] = info.waiting;
  return object;
}

json::object ToJson(const engine::TenantInfo& info) {
  return {{"name", engine::ValidUtf8(info.name)},
          {"weight", info.weight},
          {"served", info.served},
          {"running", info.running},
          {"waiting", info.waiting},
          {"kv_blocks", info.blocks}};
}

json::object ToJson(const engine::EngineState& state) {
  const engine::EngineStats& stats = state.stats;
  json::array running, waiting, tenants;
  for (const auto& sequence : state.sequences) {
    (sequence.running ? running : waiting).push_back(ToJson(sequence));
  }
  for (const auto& tenant : state.tenants) tenants.push_back(ToJson(tenant));
  return {{"state", "serving"},
          {"running", stats.requests_running},
          {"waiting", stats.requests_waiting},
          {"steps_in_flight", state.steps_in_flight},
          {"steps", stats.steps},
          {"preemptions", stats.preemptions},
          {"predicted_wait_seconds", stats.predicted_wait},
          {"prefill_budget_tokens", stats.prefill_budget},
          {"step_cost_error", stats.step_cost_error},
          {"step_margin", stats.step_margin},
          {"kv_blocks",
           {{"total", stats.kv_blocks_total},
            {"used", stats.kv_blocks_used},
            {"idle", stats.kv_blocks_idle},
            {"tokens_each", stats.kv_block_size}}},
          {"running_sequences", std::move(running)},
          {"waiting_sequences", std::move(waiting)},
          {"sequences_left_out", state.more_sequences},
          {"tenants", std::move(tenants)}};
}

struct StateRequest {
  std::shared_ptr<Exchange> exchange;
  const ModelRegistry* registry;
  FrontendPool* pool;
  std::vector<std::optional<engine::EngineState>> shown;  // by model; none: its engine isn't there
};

void Answer(const StateRequest& request) {
  json::object models;
  for (size_t i = 0; i < request.shown.size(); ++i) {
    const ServedModel& model = *request.registry->models()[i];
    if (request.shown[i]) {
      models[model.facts.name] = ToJson(*request.shown[i]);
    } else {
      const char* const state = model.engine.load() == nullptr ? "loading" : "stopped";
      models[model.facts.name] = json::object{{"state", state}};
    }
  }
  HttpResponse response;
  response.body = json::serialize(json::object{{"models", std::move(models)}});
  response.headers.emplace_back("Cache-Control", "no-store");
  request.exchange->Reply(std::move(response));
}

// The models' engines show themselves one after another, each on its own thread, which only keeps
// the state: the answer is made on the pool.
void ShowRest(const std::shared_ptr<StateRequest>& request) {
  const auto& models = request->registry->models();
  while (request->shown.size() < models.size()) {
    const engine::Engine* engine = models[request->shown.size()]->engine.load();
    const auto keep = [request](engine::EngineState state) {
      request->shown.emplace_back(std::move(state));
      ShowRest(request);
    };
    if (engine != nullptr && engine->Look(kSequencesMax, keep)) return;
    request->shown.emplace_back();
  }
  request->pool->Post([request] { Answer(*request); });
}

}  // namespace

void AddAdminRoutes(Router* router, const ModelRegistry* registry, FrontendPool* pool,
                    std::string key) {
  router->Add("GET", "/admin/state",
              [registry, pool, key = std::move(key)](std::shared_ptr<Exchange> exchange) {
                if (!NamesKey(exchange->request().Header("authorization"), key)) {
                  HttpResponse refusal =
                      HttpError(401, "the admin key is missing or wrong", "invalid_admin_key");
                  refusal.headers.emplace_back("WWW-Authenticate", "Bearer");
                  return exchange->Reply(std::move(refusal));
                }
                auto request = std::make_shared<StateRequest>();
                request->exchange = std::move(exchange);
                request->registry = registry;
                request->pool = pool;
                ShowRest(request);
              });
}

}  // namespace sluice::server
