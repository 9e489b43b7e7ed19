// The small endpoints of the service: models, tokenize, detokenize.
#include <algorithm>
#include <boost/json/serialize.hpp>

#include "server/http/json_text.h"
#include "server/openai/prompt_tokens.h"
#include "server/openai/service.h"

namespace sluice::server::openai {
namespace {

namespace json = boost::json;

void AppendCard(std::string* out, const ServedModel& model) {
  *out += "{\"id\":";
  AppendJsonString(*out, model.facts.name);
  *out += ",\"object\":\"model\",\"created\":" + std::to_string(model.facts.created);
  *out += ",\"owned_by\":\"sluice\",\"root\":";
  AppendJsonString(*out, model.facts.name);
  *out += ",\"parent\":null,\"max_model_len\":" + std::to_string(model.facts.context_tokens) + "}";
}

HttpResponse JsonResponse(std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  return response;
}

}  // namespace

void Service::ListModels(const ExchangePtr& exchange) const {
  // Some gateways take this list for a sign of readiness.
  if (parts_.readiness->snapshot().state == Readiness::State::kLoading) {
    return Refuse(exchange, *NotReady());
  }
  std::string body = "{\"object\":\"list\",\"data\":[";
  for (const auto& model : parts_.registry->models()) {
    if (body.back() == '}') body += ',';
    AppendCard(&body, *model);
  }
  exchange->Reply(JsonResponse(body + "]}"));
}

void Service::GetModel(const ExchangePtr& exchange) const {
  constexpr std::string_view kPrefix = "/v1/models/";
  const std::string name =
      PercentDecode(std::string_view(exchange->request().path).substr(kPrefix.size()));
  auto found = FindModel(name);
  if (const auto* error = std::get_if<ApiError>(&found)) return Refuse(exchange, *error);
  std::string body;
  AppendCard(&body, *std::get<ModelPtr>(found));
  exchange->Reply(JsonResponse(std::move(body)));
}

void Service::Tokenize(const ExchangePtr& exchange, const TicketPtr&) {
  auto body = ParseBody(exchange->TakeBody().text, parts_.caps.json);
  if (const auto* failed = std::get_if<ApiError>(&body)) return Refuse(exchange, *failed);
  const json::object& object = std::get<0>(body);
  std::optional<ApiError> error;
  const FieldReader fields(object, "", &error);
  std::string name;
  std::string text;
  ChatPrompt chat;
  std::optional<bool> add_special_tokens;
  bool return_strings = false;
  fields.String("model", &name);
  fields.Bool("add_special_tokens", &add_special_tokens);
  fields.Bool("return_token_strs", &return_strings);
  const bool is_chat = fields.Get("messages") != nullptr;
  if (is_chat) {
    ReadMessages(fields, parts_.caps, &chat);
    chat.add_special_tokens = add_special_tokens;
  } else {
    fields.String("prompt", &text);
    if (!error && fields.Get("prompt") == nullptr) fields.Fail("prompt", "is missing");
  }
  if (error) return Refuse(exchange, *error);
  auto found = FindModel(name);
  if (const auto* failed = std::get_if<ApiError>(&found)) return Refuse(exchange, *failed);
  const ServedModel& model = *std::get<ModelPtr>(found);
  // Longer than the context is no error here: people ask in order to learn how long a text is.
  const auto ids = is_chat ? EncodeChat(model, chat, SIZE_MAX)
                           : EncodeText(model, text, add_special_tokens, SIZE_MAX);
  if (!ids.ok()) return Refuse(exchange, FromStatus(ids.status(), 0));

  std::string out = "{\"count\":" + std::to_string(ids->size()) +
                    ",\"max_model_len\":" + std::to_string(model.facts.context_tokens) +
                    ",\"tokens\":[";
  for (size_t i = 0; i < ids->size(); ++i) {
    if (i > 0) out += ',';
    out += std::to_string((*ids)[i]);
  }
  out += "],\"token_strs\":";
  if (return_strings) {
    out += '[';
    for (size_t i = 0; i < ids->size(); ++i) {
      if (i > 0) out += ',';
      AppendJsonString(out, model.facts.tokenizer->TokenBytes((*ids)[i]));
    }
    out += "]}";
  } else {
    out += "null}";
  }
  exchange->Reply(JsonResponse(std::move(out)));
}

void Service::Detokenize(const ExchangePtr& exchange, const TicketPtr&) {
  auto body = ParseBody(exchange->TakeBody().text, parts_.caps.json);
  if (const auto* failed = std::get_if<ApiError>(&body)) return Refuse(exchange, *failed);
  const json::object& object = std::get<0>(body);
  std::optional<ApiError> error;
  const FieldReader fields(object, "", &error);
  std::string name;
  std::vector<int32_t> ids;
  fields.String("model", &name);
  const json::array* tokens = fields.Array("tokens");
  if (!error && tokens == nullptr) fields.Fail("tokens", "is missing");
  if (tokens != nullptr) ReadTokenIds(fields, "tokens", *tokens, &ids);
  if (error) return Refuse(exchange, *error);
  auto found = FindModel(name);
  if (const auto* failed = std::get_if<ApiError>(&found)) return Refuse(exchange, *failed);
  const engine::Tokenizer& tokenizer = *std::get<ModelPtr>(found)->facts.tokenizer;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < tokenizer.vocab_size()) continue;
    fields.Fail("tokens[" + std::to_string(i) + "]", "token " + std::to_string(ids[i]) +
                                                         " is not in the vocabulary of " +
                                                         std::to_string(tokenizer.vocab_size()));
    return Refuse(exchange, *error);
  }
  std::string out = "{\"prompt\":";
  AppendJsonString(out, tokenizer.Decode(ids, false));
  exchange->Reply(JsonResponse(out + "}"));
}

}  // namespace sluice::server::openai
