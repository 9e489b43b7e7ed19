#include "server/models/chat_message.h"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <iterator>
#include <utility>

#include "server/base/clip.h"

namespace sluice::server {
namespace {

namespace json = boost::json;

constexpr size_t kArgumentsDepthMax = 64;
constexpr std::string_view kRoles[] = {"system", "developer", "user", "assistant", "tool"};
constexpr std::string_view kReserved[] = {"messages",
                                          "tools",
                                          "documents",
                                          "chat_template",
                                          "bos_token",
                                          "eos_token",
                                          "tokenize",
                                          "add_generation_prompt",
                                          "continue_final_message"};

int64_t CountValues(const json::value& value) {
  int64_t count = 1;
  if (const auto* array = value.if_array()) {
    for (const json::value& item : *array) count += CountValues(item);
  } else if (const auto* object = value.if_object()) {
    for (const auto& member : *object) count += CountValues(member.value());
  }
  return count;
}

// No JSON text has more values than this: before it is parsed, which would make them.
int64_t MostValuesIn(std::string_view text) {
  int64_t count = 1;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\') ++i;
    if (c == '"') quoted = !quoted;
    if (!quoted && (c == ',' || c == '[' || c == '{')) ++count;
  }
  return count;
}

// Templates read arguments as an object; the wire has them as a string that holds JSON.
absl::Status ParseArguments(json::value* call, TemplateValues* values) {
  auto* object = call->if_object();
  auto* function = object == nullptr ? nullptr : object->if_contains("function");
  if (function == nullptr || !function->is_object()) return absl::OkStatus();
  auto* arguments = function->get_object().if_contains("arguments");
  if (arguments == nullptr || !arguments->is_string()) return absl::OkStatus();
  const json::string& text = arguments->get_string();
  SLUICE_RETURN_IF_ERROR(
      values->Take("tool_calls", MostValuesIn(std::string_view(text.data(), text.size()))));
  json::parse_options options;
  options.max_depth = kArgumentsDepthMax;
  boost::system::error_code error;
  json::value parsed = json::parse(text, error, {}, options);
  if (!error && parsed.is_object()) *arguments = std::move(parsed);
  return absl::OkStatus();
}

}  // namespace

absl::Status TemplateValues::Take(std::string_view field, int64_t count) {
  left_ -= count;
  if (left_ >= 0) return absl::OkStatus();
  return engine::InvalidArgument(std::string(field) + ": more than " + std::to_string(most_) +
                                 " values in the chat's tool calls and chat_template_kwargs");
}

absl::Status TemplateValues::Take(std::string_view field, const json::value& value) {
  return Take(field, CountValues(value));
}

absl::StatusOr<json::object> TemplateMessage(ChatMessage message, TemplateValues* values) {
  if (std::find(std::begin(kRoles), std::end(kRoles), message.role) == std::end(kRoles)) {
    return engine::InvalidArgument("role: \"" + Clip(message.role) +
                                   "\" is not one of system, developer, user, assistant, tool");
  }
  if (message.role != "assistant" && !message.content) {
    return engine::InvalidArgument("content: is missing");
  }
  json::object out;
  // OpenAI's newer name for the same thing; models know the older one.
  out["role"] = message.role == "developer" ? "system" : message.role;
  out["content"] = message.content.value_or("");
  if (!message.name.empty()) out["name"] = message.name;
  if (!message.tool_call_id.empty()) out["tool_call_id"] = message.tool_call_id;
  if (!message.reasoning_content.empty()) out["reasoning_content"] = message.reasoning_content;
  if (!message.tool_calls.empty()) {
    for (json::value& call : message.tool_calls) {
      SLUICE_RETURN_IF_ERROR(values->Take("tool_calls", call));
      SLUICE_RETURN_IF_ERROR(ParseArguments(&call, values));
    }
    out["tool_calls"] = std::move(message.tool_calls);
  }
  return out;
}

absl::Status CheckTemplateArguments(const json::object& arguments) {
  for (const auto& member : arguments) {
    const std::string_view name(member.key().data(), member.key().size());
    if (std::find(std::begin(kReserved), std::end(kReserved), name) == std::end(kReserved)) {
      continue;
    }
    return engine::InvalidArgument("chat_template_kwargs: \"" + std::string(name) +
                                   "\" is not the caller's to set");
  }
  return absl::OkStatus();
}

absl::Status CheckContinuation(const ChatPrompt& prompt, bool generation_prompt_wanted) {
  if (!prompt.continue_final_message) return absl::OkStatus();
  if (generation_prompt_wanted && prompt.add_generation_prompt) {
    return engine::InvalidArgument("continue_final_message: excludes add_generation_prompt: true");
  }
  const json::object& last = prompt.messages.back().get_object();
  if (last.at("role") != "assistant" || last.at("content").get_string().empty()) {
    return engine::InvalidArgument(
        "continue_final_message: the last message must be the assistant's and have content");
  }
  return absl::OkStatus();
}

}  // namespace sluice::server
