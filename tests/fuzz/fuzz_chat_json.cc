// Request bodies of OpenAI's dialect: JSON to fields to prompt tokens, as chat and as completion.
// What users write never becomes a control token.
//
// Input: the body.

#include <algorithm>
#include <memory>
#include <utility>

#include "engine/tokenizer/utf8.h"
#include "server/models/served_model.h"
#include "server/openai/api_error.h"
#include "server/openai/json_fields.h"
#include "server/openai/prompt_tokens.h"
#include "server/openai/request_fields.h"
#include "tests/engine/tokenizer/small_spec.h"
#include "tests/fuzz/input.h"

namespace sluice::testing {
namespace {

using namespace server::openai;
using server::ChatPrompt;
using server::ServedModel;

constexpr char kChatMl[] =
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{{ message.content | trim }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

template <class T>
std::shared_ptr<const T> Must(absl::StatusOr<std::unique_ptr<const T>> made) {
  Require(made.ok(), "the fixture is sound", engine::Message(made.status()));
  return std::move(*made);
}

ServedModel::Facts MakeFacts() {
  SmallSpec small("llama-bpe");
  small.AddMerge("a", "b");
  small.AddMerge("<", "|");
  small.AddNamed("<|im_start|>");
  small.spec.eos_id = small.AddNamed("<|im_end|>");
  small.spec.bos_id = small.AddNamed("<s>");
  small.spec.end_ids = {small.spec.eos_id};
  ServedModel::Facts facts;
  facts.name = "m";
  facts.context_tokens = 4096;
  facts.waiting_max = 16;
  facts.tokenizer = Must(engine::Tokenizer::Create(std::move(small.spec)));
  facts.chat_template = Must(engine::ChatTemplate::Compile(kChatMl));
  facts.bos_token = "<s>";
  facts.eos_token = "<|im_end|>";
  return facts;
}

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
  const auto controls = static_cast<size_t>(std::count_if(
      ids.begin(), ids.end(), [&](int32_t id) { return model.facts.tokenizer->IsControl(id); }));
  const ChatPrompt& prompt = fields.prompt;
  size_t wanted = 2 * prompt.messages.size();
  if (prompt.add_generation_prompt && !prompt.continue_final_message) ++wanted;
  if (ids.front() == model.facts.tokenizer->spec().bos_id) ++wanted;
  // What is gone on with loses the end of its turn, unless the end is what it says itself ("\n").
  const size_t least = wanted - (prompt.continue_final_message ? 1 : 0);
  Require(controls <= wanted && controls >= least, "control tokens are the template's",
          model.facts.tokenizer->Decode(ids, false));
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
  static const ServedModel model(MakeFacts());
  const auto body = ParseBody({reinterpret_cast<const char*>(data), size});
  if (const auto* error = std::get_if<ApiError>(&body)) {
    CheckError(*error);
    return 0;
  }
  Chat(model, std::get<boost::json::object>(body));
  Completion(model, std::get<boost::json::object>(body));
  return 0;
}
