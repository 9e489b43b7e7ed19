// Request bodies of OpenAI's dialect: JSON to fields to prompt tokens, as chat and as completion.
// What users write never becomes a control token.
//
// Input: the body.

#include <string>
#include <variant>
#include <vector>

#include "engine/tokenizer/utf8.h"
#include "server/models/served_model.h"
#include "server/openai/api_error.h"
#include "server/openai/json_fields.h"
#include "server/openai/prompt_tokens.h"
#include "server/openai/request_fields.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/small_chat.h"

namespace sluice::testing {
namespace {

using namespace server::openai;
using server::ServedModel;

void CheckError(const ApiError& error) {
  Require(error.status >= 400 && error.status < 600, "errors have an error's status");
  Require(!error.message.empty(), "errors say what is wrong");
  const std::string text = ErrorJson(error);
  Require(engine::IsValidUtf8(text), "errors are valid UTF-8", text);
  Require(std::holds_alternative<boost::json::object>(ParseBody(text)), "errors are JSON", text);
}

void Chat(const ServedModel& model, const boost::json::object& body) {
  auto read = ReadChat(body, RequestCaps());
  if (const auto* error = std::get_if<ApiError>(&read)) return CheckError(*error);
  const ChatFields& fields = std::get<ChatFields>(read);
  auto tokens = ChatTokens(model, fields.prompt);
  if (const auto* error = std::get_if<ApiError>(&tokens)) return CheckError(*error);
  const auto& ids = std::get<std::vector<int32_t>>(tokens);
  RequireTemplatesControlTokens(fields.prompt, ids);
}

void Completion(const ServedModel& model, const boost::json::object& body) {
  auto read = ReadCompletion(body, RequestCaps());
  if (const auto* error = std::get_if<ApiError>(&read)) return CheckError(*error);
  for (const WirePrompt& prompt : std::get<CompletionFields>(read).prompts) {
    auto tokens = PromptTokens(model, prompt, "prompt", std::nullopt);
    if (const auto* error = std::get_if<ApiError>(&tokens)) CheckError(*error);
  }
}

}  // namespace
}  // namespace sluice::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice::testing;
  const ServedModel& model = SmallChatModel();
  const auto body = ParseBody({reinterpret_cast<const char*>(data), size});
  if (const auto* error = std::get_if<ApiError>(&body)) {
    CheckError(*error);
    return 0;
  }
  Chat(model, std::get<boost::json::object>(body));
  Completion(model, std::get<boost::json::object>(body));
  return 0;
}
