#include "server/openai/service.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <exception>
#include <limits>
#include <utility>

#include "engine/base/log.h"
#include "engine/request_validation.h"
#include "server/base/request_id.h"
#include "server/models/checks.h"
#include "server/models/prompt_log.h"
#include "server/openai/openapi.h"
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
  router->Add("GET", "/openapi.json", [](ExchangePtr exchange) {
    HttpResponse response;
    response.body = kOpenApi;
    exchange->Reply(std::move(response));
  });
  router->Add("GET", "/v1/models", [this](ExchangePtr exchange) { ListModels(exchange); });
  router->Add("GET", "/v1/models/*", [this](ExchangePtr exchange) { GetModel(exchange); });
}

void Service::AddWork(Router* router, const char* path, Work work, bool needs_engine) {
  auto handler = [this, work, needs_engine](ExchangePtr exchange) {
    if (needs_engine) {
      if (const auto error = NotReady()) return Refuse(exchange, *error);
    }
    auto ticket = parts_.in_flight->Enter();
    if (!ticket.ok()) {
      ApiError full = FromStatus(ticket.status(), 1);
      full.code = "requests_full";
      return Refuse(exchange, full);
    }
    const bool accepted = parts_.pool->TryPost([this, work, exchange, ticket = *ticket] {
      if (exchange->gone()) return;
      try {
        (this->*work)(exchange, ticket);
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
  SLUICE_LOG_EVENT(kInfo, "refused")
      .Word("path", request.path)
      .Word("http_id", request.id)
      .Number("status", error.status)
      .Word("code", error.code)
      .Word("param", error.param)
      .Number("total_ms", ms, 1);
}

std::optional<ApiError> Service::NotReady() const {
  const Readiness::Snapshot now = parts_.readiness->snapshot();
  const absl::Status status = CheckReady(now);
  if (status.ok()) return std::nullopt;
  ApiError error = FromStatus(status, RetryAfterSeconds(status, nullptr));
  error.code = StateName(now.state);
  return error;
}

std::variant<Service::ModelPtr, ApiError> Service::FindModel(const std::string& name) const {
  auto model = server::FindModel(*parts_.registry, name);
  if (model.ok()) return std::move(*model);
  return FromStatus(model.status(), 0);
}

std::optional<ApiError> Service::Overloaded(const ServedModel& model, int64_t answers) const {
  const absl::Status status = CheckRoom(model, answers);
  if (status.ok()) return std::nullopt;
  return FromStatus(status, RetryAfterSeconds(status, &model, static_cast<int>(answers)));
}

void Service::Chat(const ExchangePtr& exchange, const TicketPtr& ticket) {
  auto body = ParseBody(exchange->TakeBody().text, parts_.caps.json);
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
  Generate(exchange, model, std::move(fields.common), std::move(setup), ticket);
}

void Service::Completions(const ExchangePtr& exchange, const TicketPtr& ticket) {
  auto body = ParseBody(exchange->TakeBody().text, parts_.caps.json);
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
  Generate(exchange, model, std::move(fields.common), std::move(setup), ticket);
}

void Service::Generate(const ExchangePtr& exchange, const ModelPtr& model, CommonFields fields,
                       Answer::Setup setup, const TicketPtr& ticket) const {
  engine::Engine* const engine = model->engine.load();
  int64_t tokens = 0;
  for (const auto& prompt : setup.prompts) tokens += static_cast<int64_t>(prompt.size());
  if (const absl::Status full = ticket->AddPromptTokens(tokens * fields.n); !full.ok()) {
    ApiError error = FromStatus(full, RetryAfterSeconds(full, model.get(), fields.n));
    if (error.status == 429) error.code = "prompt_tokens_full";
    return Refuse(exchange, error);
  }
  const auto& head = exchange->request();
  if (const absl::Status status =
          ReadTargetHeaders(head.Header(kFirstTokenTargetHeader),
                            head.Header(kInterTokenTargetHeader), &fields.terms);
      !status.ok()) {
    return Refuse(exchange, FromStatus(status, 0));
  }
  setup.ticket = ticket;
  auto base = std::make_shared<engine::GenerateRequest>();
  base->id = setup.facts.id;
  base->sampling = std::move(fields.sampling);
  base->stop = std::move(fields.stop);
  base->stop.max_tokens = *fields.max_tokens;
  base->n = fields.n;
  base->arrival = setup.arrival;
  const std::string& tenant = parts_.caps.tenant_header;
  ApplyTerms(fields.terms, tenant.empty() ? "" : head.Header(tenant), base.get());
  const std::vector<std::vector<int32_t>> prompts = setup.prompts;
  for (const auto& prompt : prompts) LogPrompt(*model, base->id, exchange->request().id, prompt);
  const auto answer = std::make_shared<Answer>(std::move(setup), exchange, engine, parts_.pool);
  if (base->stop.max_tokens == 0) return EchoOnly(exchange, *model, *base, prompts, answer);
  for (size_t i = 0; i < prompts.size(); ++i) {
    auto request = std::make_shared<engine::GenerateRequest>(*base);
    request->prompt = prompts[i];
    request->sampling.seed = fields.seed.value_or(RandomBits());
    const absl::Status status =
        engine->Submit(std::move(request), answer->Sink(static_cast<int32_t>(i)));
    if (!status.ok()) {
      answer->Abort();
      return Refuse(exchange, FromStatus(status, RetryAfterSeconds(status, model.get(), base->n)));
    }
  }
  answer->Open();
}

// The engine has nothing to make, but what it would refuse is refused.
void Service::EchoOnly(const ExchangePtr& exchange, const ServedModel& model,
                       engine::GenerateRequest request,
                       const std::vector<std::vector<int32_t>>& prompts,
                       const std::shared_ptr<Answer>& answer) const {
  const engine::ValidationLimits limits{.vocabulary = model.facts.tokenizer->vocab_size(),
                                        .context_tokens = model.facts.context_tokens};
  request.stop.max_tokens = 1;
  for (const auto& prompt : prompts) {
    request.prompt = prompt;
    if (const absl::Status status = engine::ValidateRequest(request, limits); !status.ok()) {
      return Refuse(exchange, FromStatus(status, 0));
    }
  }
  answer->EndWithoutTokens();
  answer->Open();
}

}  // namespace sluice::server::openai
