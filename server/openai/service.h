#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/admission/in_flight.h"
#include "server/base/frontend_pool.h"
#include "server/http/exchange.h"
#include "server/http/router.h"
#include "server/models/model_registry.h"
#include "server/models/readiness.h"
#include "server/openai/answer.h"
#include "server/openai/request_fields.h"

namespace sluice::server::openai {

// OpenAI's HTTP API over the registry's models, with vLLM's /tokenize and /detokenize. Everything
// but the quick refusals runs on the frontend pool.
class Service {
 public:
  struct Parts {
    const ModelRegistry* registry = nullptr;
    const Readiness* readiness = nullptr;
    FrontendPool* pool = nullptr;
    std::shared_ptr<InFlight> in_flight;
    RequestCaps caps;
    std::string version;
  };
  // The parts outlive the service, the service outlives the HTTP server.
  explicit Service(Parts parts) : parts_(std::move(parts)) {}

  void AddRoutes(Router* router);

 private:
  using ExchangePtr = std::shared_ptr<Exchange>;
  using ModelPtr = std::shared_ptr<ServedModel>;
  using TicketPtr = std::shared_ptr<InFlight::Ticket>;
  using Work = void (Service::*)(const ExchangePtr&, const TicketPtr&);

  void AddWork(Router* router, const char* path, Work work, bool needs_engine);
  // Answers with an error and writes the request's log line.
  void Refuse(const ExchangePtr& exchange, const ApiError& error) const;
  std::optional<ApiError> NotReady() const;

  void Chat(const ExchangePtr& exchange, const TicketPtr& ticket);
  void Completions(const ExchangePtr& exchange, const TicketPtr& ticket);
  void Tokenize(const ExchangePtr& exchange, const TicketPtr&);
  void Detokenize(const ExchangePtr& exchange, const TicketPtr&);
  void ListModels(const ExchangePtr& exchange) const;
  void GetModel(const ExchangePtr& exchange) const;

  std::variant<ModelPtr, ApiError> FindModel(const std::string& name) const;
  // 429 while the engine's queue is full: known before any text is tokenised.
  std::optional<ApiError> Overloaded(const ServedModel& model, int64_t answers) const;
  void Generate(const ExchangePtr& exchange, const ModelPtr& model, CommonFields fields,
                Answer::Setup setup, const TicketPtr& ticket) const;
  // Answers with the prompts alone: echo with max_tokens 0.
  void EchoOnly(const ExchangePtr& exchange, const ServedModel& model,
                engine::GenerateRequest request, const std::vector<std::vector<int32_t>>& prompts,
                const std::shared_ptr<Answer>& answer) const;

  const Parts parts_;
};

}  // namespace sluice::server::openai
