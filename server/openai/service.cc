#include "server/openai/service.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <exception>
#include <limits>
#include <utility>

#include "engine/base/log.h"
#include "server/base/request_id.h"
#include "server/openai/prompt_tokens.h"

namespace sluice::server::openai {
namespace {

Answer::Setup MakeSetup(Endpoint endpoint, const CommonFields& fields, const ServedModel& model,
                        const Exchange& exchange, const std::string& version) {
  Answer::Setup setup;
  setup.facts.endpoint = endpoint;
  setup.facts.id = (endpoint == Endpoint::kChat ? "chatcmpl-" : "cmpl-") + RandomHexId();
  setup.facts.created = std::time(nullptr);
  setup.facts.model = model.facts.name;
  setup.facts.fingerprint = "sluice-" + version;
  setup.facts.include_usage = fields.include_usage;
  setup.facts.continuous_usage = fields.continuous_usage;
  setup.facts.return_token_ids = fields.return_token_ids;
  setup.stream = fields.stream;
  setup.n = fields.n;
  setup.arrival = exchange.request().arrival;
  return setup;
}

}  // namespace

void Service::AddRoutes(Router* router) {
  AddWork(router, "/v1/chat/completions", &Service::Chat, true);
  AddWork(router, "/v1/completions", &Service::Completions, true);
  AddWork(router, "/tokenize", &Service::Tokenize, false);
  AddWork(router, "/detokenize", &Service::Detokenize, false);
  router->Add("GET", "/v1/models", [this](ExchangePtr exchange) { ListModels(exchange); });
  router->Add("GET", "/v1/models/*", [this](ExchangePtr exchange) { GetModel(exchange); });
}

void Service::AddWork(Router* router, const char* path, Work work, bool needs_engine) {
  auto handler = [this, work, needs_engine](ExchangePtr exchange) {
    if (needs_engine) {
      if (const auto error = NotReady()) return Refuse(exchange, *error);
    }
    const bool accepted = parts_.pool->TryPost([this, work, exchange] {
      if (exchange->gone()) return;
      try {
        (this->*work)(exchange);
      } catch (const std::exception& error) {
        Refuse(exchange,
               {500, std::string("internal error: ") + error.what(), "", "internal_error"});
      }
    });
    if (accepted) return;
    Refuse(exchange, {429,
                      "too many requests wait to be read, at most " +
                          std::to_string(parts_.pool->queue_max()) + " may",
                      "", "queue_full", 1});
  };
  Admission admission;
  if (needs_engine) {
    admission = [this](const HttpRequest&) -> std::optional<HttpResponse> {
      if (const auto error = NotReady()) return ErrorResponse(*error);
      return std::nullopt;
    };
  }
  router->Add("POST", path, std::move(handler), std::move(admission));
}

void Service::Refuse(const ExchangePtr& exchange, const ApiError& error) const {
  const HttpRequest& request = exchange->request();
  const double ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - request.arrival)
          .count();
  exchange->Reply(ErrorResponse(error));
  // Only the field's name: messages may quote the caller's text, which does not belong in a log.
  SLUICE_LOG(kInfo) << "refused path=" << request.path << " http_id=" << request.id
                    << " status=" << error.status << " code=" << error.code
                    << " param=" << (error.param.empty() ? "-" : error.param) << " total_ms=" << ms;
}

std::optional<ApiError> Service::NotReady() const {
  const Readiness::Snapshot now = parts_.readiness->snapshot();
  switch (now.state) {
    case Readiness::State::kReady:
      return std::nullopt;
    case Readiness::State::kLoading:
      return ApiError{503,
                      "the model is still loading (" + now.stage + " " +
                          std::to_string(static_cast<int>(now.fraction * 100)) + "%)",
                      "", "loading", 1};
    case Readiness::State::kDraining:
      return ApiError{503, "the server is shutting down", "", "draining", 1};
    case Readiness::State::kFailed:
      break;
  }
  return ApiError{503, "the engine has failed; the server is about to end", "", "failed", 1};
}

std::variant<Service::ModelPtr, ApiError> Service::FindModel(const std::string& name) const {
  if (ModelPtr model = parts_.registry->Find(name)) return model;
  return ApiError{
      404,
      "model: there is no \"" + Clip(name, 128) + "\" here; served: " + parts_.registry->Names(),
      "model", "model_not_found"};
}

std::optional<ApiError> Service::Overloaded(const ServedModel& model, int64_t answers) const {
  const engine::Engine* engine = model.engine.load();
  const engine::EngineStats stats = engine->stats();
  if (stats.requests_waiting == 0 || stats.requests_waiting + answers <= model.facts.waiting_max) {
    return std::nullopt;
  }
  return ApiError{429,
                  "too many requests: " + std::to_string(stats.requests_waiting) +
                      " answers wait, at most " + std::to_string(model.facts.waiting_max) + " may",
                  "", "queue_full", engine->RetryAfterSeconds()};
}

void Service::Chat(const ExchangePtr& exchange) {
  auto body = ParseBody(exchange->TakeBody());
  if (const auto* error = std::get_if<ApiError>(&body)) return Refuse(exchange, *error);
  auto read = ReadChat(std::get<0>(body), parts_.caps);
  if (const auto* error = std::get_if<ApiError>(&read)) return Refuse(exchange, *error);
  ChatFields& fields = std::get<ChatFields>(read);
  auto found = FindModel(fields.common.model);
  if (const auto* error = std::get_if<ApiError>(&found)) return Refuse(exchange, *error);
  const ModelPtr model = std::get<ModelPtr>(found);
  if (const auto error = Overloaded(*model, fields.common.n)) return Refuse(exchange, *error);
  auto tokens = ChatTokens(*model, fields.prompt);
  if (const auto* error = std::get_if<ApiError>(&tokens)) return Refuse(exchange, *error);

  Answer::Setup setup =
      MakeSetup(Endpoint::kChat, fields.common, *model, *exchange, parts_.version);
  setup.prompts.push_back(std::move(std::get<0>(tokens)));
  if (!fields.common.max_tokens) {
    fields.common.max_tokens =
        model->facts.context_tokens - static_cast<int32_t>(setup.prompts.front().size());
  }
  Generate(exchange, model, std::move(fields.common), std::move(setup));
}

void Service::Completions(const ExchangePtr& exchange) {
  auto body = ParseBody(exchange->TakeBody());
  if (const auto* error = std::get_if<ApiError>(&body)) return Refuse(exchange, *error);
  auto read = ReadCompletion(std::get<0>(body), parts_.caps);
  if (const auto* error = std::get_if<ApiError>(&read)) return Refuse(exchange, *error);
  CompletionFields& fields = std::get<CompletionFields>(read);
  auto found = FindModel(fields.common.model);
  if (const auto* error = std::get_if<ApiError>(&found)) return Refuse(exchange, *error);
  const ModelPtr model = std::get<ModelPtr>(found);
  const int64_t answers = static_cast<int64_t>(fields.prompts.size()) * fields.common.n;
  if (const auto error = Overloaded(*model, answers)) return Refuse(exchange, *error);

  Answer::Setup setup =
      MakeSetup(Endpoint::kCompletions, fields.common, *model, *exchange, parts_.version);
  for (size_t i = 0; i < fields.prompts.size(); ++i) {
    const std::string name =
        fields.prompts.size() == 1 ? "prompt" : "prompt[" + std::to_string(i) + "]";
    auto tokens = PromptTokens(*model, fields.prompts[i], name, fields.common.add_special_tokens);
    if (const auto* error = std::get_if<ApiError>(&tokens)) return Refuse(exchange, *error);
    setup.prompts.push_back(std::move(std::get<0>(tokens)));
    if (!fields.echo) continue;
    const auto* text = std::get_if<std::string>(&fields.prompts[i]);
    setup.echoes.push_back(
        text != nullptr ? *text : model->facts.tokenizer->Decode(setup.prompts.back(), false));
  }
  if (!fields.common.max_tokens) fields.common.max_tokens = 16;  // OpenAI's default
  Generate(exchange, model, std::move(fields.common), std::move(setup));
}

void Service::Generate(const ExchangePtr& exchange, const ModelPtr& model, CommonFields fields,
                       Answer::Setup setup) const {
  engine::Engine* const engine = model->engine.load();
  auto base = std::make_shared<engine::GenerateRequest>();
  base->id = setup.facts.id;
  base->sampling = std::move(fields.sampling);
  base->stop = std::move(fields.stop);
  base->stop.max_tokens = *fields.max_tokens;
  base->n = fields.n;
  base->arrival = setup.arrival;
  const std::vector<std::vector<int32_t>> prompts = setup.prompts;
  const auto answer = std::make_shared<Answer>(std::move(setup), exchange, engine, parts_.pool);
  for (size_t i = 0; i < prompts.size(); ++i) {
    auto request = std::make_shared<engine::GenerateRequest>(*base);
    request->prompt = prompts[i];
    request->sampling.seed = fields.seed.value_or(RandomBits());
    const absl::Status status =
        engine->Submit(std::move(request), answer->Sink(static_cast<int32_t>(i)));
    if (!status.ok()) {
      answer->Abort();
      return Refuse(exchange, FromStatus(status, engine->RetryAfterSeconds()));
    }
  }
  answer->Open();
}

}  // namespace sluice::server::openai
