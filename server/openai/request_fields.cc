#include "server/openai/request_fields.h"

#include <utility>

#include "server/models/chat_message.h"
#include "server/openai/common_fields.h"

namespace sluice::server::openai {
namespace {

namespace json = boost::json;

std::string Indexed(std::string_view name, size_t i) {
  return std::string(name) + "[" + std::to_string(i) + "]";
}

// The text of "content": a string, null, or parts, whose texts are joined with nothing between.
void ReadContent(const FieldReader& message, std::string* out) {
  const json::value* content = message.Get("content");
  if (content == nullptr) return;
  if (const auto* text = content->if_string()) {
    *out = std::string(View(*text));
    return;
  }
  const auto* parts = content->if_array();
  if (parts == nullptr) {
    return message.FailType("content", "a string, null or a list of parts", *content);
  }
  for (size_t i = 0; i < parts->size(); ++i) {
    const auto* part = (*parts)[i].if_object();
    if (part == nullptr) {
      return message.FailType(Indexed("content", i), "an object", (*parts)[i]);
    }
    std::optional<ApiError> error;
    const FieldReader fields(*part, "", &error);
    std::string type;
    std::string text;
    fields.String("type", &type);
    if (!error && type != "text") {
      return message.Fail(Indexed("content", i) + ".type",
                          "\"" + Clip(type) + "\" is not supported; this server reads \"text\"",
                          "unsupported_parameter");
    }
    if (!error && fields.Get("text") == nullptr) fields.Fail("text", "is missing");
    fields.String("text", &text);
    if (error) {
      return message.Fail(Indexed("content", i) + "." + error->param,
                          error->message.substr(error->param.size() + 2), error->code);
    }
    *out += text;
  }
}

// A status "field: what" as this reader's error.
void FailAs(const FieldReader& fields, const absl::Status& status) {
  const std::string message = engine::Message(status);
  const size_t colon = message.find(": ");
  fields.Fail(message.substr(0, colon), message.substr(colon + 2));
}

void ReadMessage(const FieldReader& fields, TemplateValues* values, json::array* out) {
  ChatMessage message;
  if (fields.ok() && fields.Get("role") == nullptr) fields.Fail("role", "is missing");
  fields.String("role", &message.role);
  std::string content;
  ReadContent(fields, &content);
  if (fields.Has("content")) message.content = std::move(content);
  fields.String("name", &message.name);
  fields.String("tool_call_id", &message.tool_call_id);
  fields.String("reasoning_content", &message.reasoning_content);
  std::string reasoning;  // another name for the same thing
  fields.String("reasoning", &reasoning);
  if (!reasoning.empty()) message.reasoning_content = std::move(reasoning);
  if (const json::array* calls = fields.Array("tool_calls")) message.tool_calls = *calls;
  if (!fields.ok()) return;
  auto read = TemplateMessage(std::move(message), values);
  if (!read.ok()) return FailAs(fields, read.status());
  out->push_back(std::move(*read));
}

void ReadTemplateArguments(const FieldReader& fields, TemplateValues* values, ChatPrompt* prompt) {
  fields.Bool("add_generation_prompt", &prompt->add_generation_prompt);
  fields.Bool("continue_final_message", &prompt->continue_final_message);
  if (const json::object* arguments = fields.Object("chat_template_kwargs")) {
    absl::Status status = CheckTemplateArguments(*arguments);
    for (const auto& member : *arguments) {
      if (status.ok()) status = values->Take("chat_template_kwargs", member.value());
    }
    if (!status.ok()) return FailAs(fields, status);
    prompt->template_arguments = *arguments;
  }
}

// A list of whole numbers is one prompt; a list of strings and lists is several.
void ReadPrompts(const FieldReader& fields, const RequestCaps& caps,
                 std::vector<WirePrompt>* prompts) {
  const json::value* value = fields.Get("prompt");
  if (value == nullptr) {
    if (fields.ok()) fields.Fail("prompt", "is missing");
    return;
  }
  if (const auto* text = value->if_string()) {
    prompts->emplace_back(std::string(View(*text)));
    return;
  }
  const auto* list = value->if_array();
  if (list == nullptr) {
    return fields.FailType("prompt", "a string, a list of token ids, or a list of those", *value);
  }
  if (list->empty()) return fields.Fail("prompt", "it is empty");
  if ((*list)[0].is_number()) {
    std::vector<int32_t> ids;
    ReadTokenIds(fields, "prompt", *list, &ids);
    prompts->emplace_back(std::move(ids));
    return;
  }
  if (list->size() > static_cast<size_t>(caps.prompts_max)) {
    return fields.Fail("prompt", std::to_string(list->size()) + " prompts, at most " +
                                     std::to_string(caps.prompts_max));
  }
  for (size_t i = 0; i < list->size(); ++i) {
    const json::value& item = (*list)[i];
    if (const auto* text = item.if_string()) {
      prompts->emplace_back(std::string(View(*text)));
    } else if (const auto* numbers = item.if_array()) {
      std::vector<int32_t> ids;
      ReadTokenIds(fields, Indexed("prompt", i), *numbers, &ids);
      prompts->emplace_back(std::move(ids));
    } else {
      return fields.FailType(Indexed("prompt", i), "a string or a list of token ids", item);
    }
  }
}

}  // namespace

void ReadMessages(const FieldReader& fields, const RequestCaps& caps, ChatPrompt* prompt) {
  const json::array* list = fields.Array("messages");
  if (!fields.ok()) return;
  if (list == nullptr) return fields.Fail("messages", "is missing");
  if (list->empty()) return fields.Fail("messages", "it is empty");
  if (list->size() > static_cast<size_t>(caps.messages_max)) {
    return fields.Fail("messages", std::to_string(list->size()) + " messages, at most " +
                                       std::to_string(caps.messages_max));
  }
  TemplateValues values(caps.template_values_max);
  for (size_t i = 0; i < list->size(); ++i) {
    const auto* message = (*list)[i].if_object();
    const std::string name = Indexed("messages", i);
    if (message == nullptr) return fields.FailType(name, "an object", (*list)[i]);
    std::optional<ApiError> error;
    ReadMessage(FieldReader(*message, "", &error), &values, &prompt->messages);
    if (error) {
      return fields.Fail(name + "." + error->param, error->message.substr(error->param.size() + 2),
                         error->code);
    }
  }
  ReadTemplateArguments(fields, &values, prompt);
  if (fields.ok()) {
    const absl::Status status =
        CheckContinuation(*prompt, fields.Get("add_generation_prompt") != nullptr);
    if (!status.ok()) FailAs(fields, status);
  }
  if (prompt->continue_final_message) prompt->add_generation_prompt = false;
}

namespace {

void ReadShared(const FieldReader& fields, const RequestCaps& caps, int64_t max_tokens_low,
                CommonFields* out) {
  ReadCommon(fields, caps, max_tokens_low, out);
  if (!fields.ok()) return;
  if (const absl::Status terms = CheckTerms(out->terms, caps); !terms.ok()) FailAs(fields, terms);
}

}  // namespace

std::variant<ChatFields, ApiError> ReadChat(const json::object& body, const RequestCaps& caps) {
  std::optional<ApiError> error;
  const FieldReader fields(body, "", &error);
  ChatFields out;
  RefuseMissingFeatures(fields, true);
  ReadShared(fields, caps, 1, &out.common);
  ReadMessages(fields, caps, &out.prompt);
  if (error) return std::move(*error);
  out.prompt.add_special_tokens = out.common.add_special_tokens;
  return out;
}

std::variant<CompletionFields, ApiError> ReadCompletion(const json::object& body,
                                                        const RequestCaps& caps) {
  std::optional<ApiError> error;
  const FieldReader fields(body, "", &error);
  CompletionFields out;
  RefuseMissingFeatures(fields, false);
  fields.Bool("echo", &out.echo);
  // Nothing new: the prompt alone comes back.
  ReadShared(fields, caps, out.echo ? 0 : 1, &out.common);
  ReadPrompts(fields, caps, &out.prompts);
  const int64_t answers = static_cast<int64_t>(out.prompts.size()) * out.common.n;
  if (!error && answers > caps.request_answers_max) {
    fields.Fail("n", std::to_string(answers) + " answers for all prompts together, at most " +
                         std::to_string(caps.request_answers_max));
  }
  if (error) return std::move(*error);
  return out;
}

}  // namespace sluice::server::openai
