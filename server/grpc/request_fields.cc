#include "server/grpc/request_fields.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "server/models/chat_message.h"

namespace sluice::server::rpc {
namespace {

namespace json = boost::json;

absl::Status InRange(const char* name, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return engine::InvalidArgument(std::string(name) + ": " + std::to_string(value) + " is not in [" +
                                 std::to_string(low) + ", " + std::to_string(high) + "]");
}

absl::Status AtMost(const char* name, int64_t count, int64_t most, const char* what) {
  if (count <= most) return absl::OkStatus();
  return engine::InvalidArgument(std::string(name) + ": " + std::to_string(count) + " " + what +
                                 ", at most " + std::to_string(most));
}

// Depth is bounded by Protobuf's own limit while parsing.
int64_t CountValues(const google::protobuf::Value& value) {
  int64_t count = 1;
  for (const auto& [name, member] : value.struct_value().fields()) count += CountValues(member);
  for (const auto& item : value.list_value().values()) count += CountValues(item);
  return count;
}

json::value ToJson(const google::protobuf::Value& value) {
  switch (value.kind_case()) {
    case google::protobuf::Value::kNumberValue: {
      // Protobuf knows doubles alone, but templates print 3 and 3.0 differently.
      const double number = value.number_value();
      if (std::abs(number) < 0x1p53 && number == std::trunc(number)) {
        return static_cast<int64_t>(number);
      }
      return number;
    }
    case google::protobuf::Value::kStringValue:
      return json::value(value.string_value());
    case google::protobuf::Value::kBoolValue:
      return value.bool_value();
    case google::protobuf::Value::kStructValue: {
      json::object out;
      for (const auto& [name, member] : value.struct_value().fields()) out[name] = ToJson(member);
      return out;
    }
    case google::protobuf::Value::kListValue: {
      json::array out;
      for (const auto& item : value.list_value().values()) out.push_back(ToJson(item));
      return out;
    }
    default:
      return nullptr;
  }
}

ChatMessage ReadMessage(const wire::ChatMessage& message) {
  ChatMessage out;
  out.role = message.role();
  if (message.has_content()) out.content = message.content();
  out.name = message.name();
  out.tool_call_id = message.tool_call_id();
  out.reasoning_content = message.reasoning_content();
  for (const wire::ToolCall& call : message.tool_calls()) {
    out.tool_calls.push_back(json::object{
        {"id", call.id()},
        {"type", "function"},
        {"function", json::object{{"name", call.name()}, {"arguments", call.arguments()}}}});
  }
  return out;
}

absl::Status ReadSampling(const wire::GenerateRequest& request, const RequestCaps& caps,
                          GenerateFields* out) {
  engine::SamplingParams& sampling = out->sampling;
  if (request.has_temperature()) sampling.temperature = request.temperature();
  if (request.has_top_p()) sampling.top_p = request.top_p();
  if (request.has_min_p()) sampling.min_p = request.min_p();
  if (request.has_presence_penalty()) sampling.presence_penalty = request.presence_penalty();
  if (request.has_frequency_penalty()) sampling.frequency_penalty = request.frequency_penalty();
  if (request.has_repetition_penalty()) sampling.repetition_penalty = request.repetition_penalty();
  if (request.has_top_k()) {
    SLUICE_RETURN_IF_ERROR(
        InRange("top_k", request.top_k(), -1, std::numeric_limits<int32_t>::max()));
    sampling.top_k = std::max(request.top_k(), 0);
  }
  if (request.has_seed()) out->seed = request.seed();
  SLUICE_RETURN_IF_ERROR(AtMost("logit_bias", static_cast<int64_t>(request.logit_bias_size()),
                                caps.logit_bias_max, "entries"));
  for (const auto& [token, bias] : request.logit_bias()) {
    sampling.logit_bias.emplace_back(token, bias);
  }
  // A map has no order; sums of answers must not depend on it.
  std::sort(sampling.logit_bias.begin(), sampling.logit_bias.end());
  return absl::OkStatus();
}

absl::Status ReadStop(const wire::GenerateRequest& request, const RequestCaps& caps,
                      GenerateFields* out) {
  engine::StopParams& stop = out->stop;
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (request.has_max_tokens()) {
    SLUICE_RETURN_IF_ERROR(InRange("max_tokens", request.max_tokens(), 1, kMost));
    out->max_tokens = request.max_tokens();
  }
  if (request.has_min_tokens()) {
    SLUICE_RETURN_IF_ERROR(InRange("min_tokens", request.min_tokens(), 0, kMost));
    stop.min_tokens = request.min_tokens();
  }
  SLUICE_RETURN_IF_ERROR(AtMost("stop", request.stop_size(), caps.stop_max, "entries"));
  stop.strings.assign(request.stop().begin(), request.stop().end());
  SLUICE_RETURN_IF_ERROR(
      AtMost("stop_token_ids", request.stop_token_ids_size(), caps.stop_token_max, "entries"));
  stop.token_ids.assign(request.stop_token_ids().begin(), request.stop_token_ids().end());
  stop.include_stop_string = request.include_stop_str_in_output();
  stop.ignore_eos = request.ignore_eos();
  if (request.has_skip_special_tokens()) stop.skip_special_tokens = request.skip_special_tokens();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ChatPrompt> ReadChat(const wire::ChatPrompt& chat, const RequestCaps& caps,
                                    std::optional<bool> add_special_tokens) {
  if (chat.messages().empty()) return engine::InvalidArgument("messages: it is empty");
  SLUICE_RETURN_IF_ERROR(AtMost("messages", chat.messages_size(), caps.messages_max, "messages"));
  ChatPrompt prompt;
  TemplateValues values(caps.template_values_max);
  for (int i = 0; i < chat.messages_size(); ++i) {
    // Before they become JSON.
    const absl::Status calls = values.Take("tool_calls", chat.messages(i).tool_calls_size());
    absl::StatusOr<json::object> message =
        calls.ok() ? TemplateMessage(ReadMessage(chat.messages(i)), &values) : calls;
    if (!message.ok()) {
      return engine::InvalidArgument("messages[" + std::to_string(i) + "]." +
                                     engine::Message(message.status()));
    }
    prompt.messages.push_back(std::move(*message));
  }
  if (chat.has_add_generation_prompt()) prompt.add_generation_prompt = chat.add_generation_prompt();
  prompt.continue_final_message = chat.continue_final_message();
  for (const auto& [name, value] : chat.chat_template_kwargs().fields()) {
    SLUICE_RETURN_IF_ERROR(values.Take("chat_template_kwargs", CountValues(value)));
    prompt.template_arguments[name] = ToJson(value);
  }
  SLUICE_RETURN_IF_ERROR(CheckTemplateArguments(prompt.template_arguments));
  SLUICE_RETURN_IF_ERROR(CheckContinuation(prompt, chat.has_add_generation_prompt()));
  if (prompt.continue_final_message) prompt.add_generation_prompt = false;
  prompt.add_special_tokens = add_special_tokens;
  return prompt;
}

absl::StatusOr<GenerateFields> ReadGenerate(const wire::GenerateRequest& request,
                                            const RequestCaps& caps) {
  GenerateFields out;
  out.model = request.model();
  out.return_prompt_token_ids = request.return_prompt_token_ids();
  if (request.has_add_special_tokens()) out.add_special_tokens = request.add_special_tokens();
  if (request.has_n()) {
    SLUICE_RETURN_IF_ERROR(InRange("n", request.n(), 1, caps.answers_max));
    out.n = request.n();
  }
  SLUICE_RETURN_IF_ERROR(ReadSampling(request, caps, &out));
  SLUICE_RETURN_IF_ERROR(ReadStop(request, caps, &out));
  out.terms.priority = request.priority();
  out.terms.cache_salt = request.cache_salt();
  out.terms.first_token_target_ms = request.ttft_slo_ms();
  out.terms.inter_token_target_ms = request.tpot_slo_ms();
  SLUICE_RETURN_IF_ERROR(CheckTerms(out.terms, caps));
  switch (request.prompt_case()) {
    case wire::GenerateRequest::kText:
      out.prompt = request.text();
      break;
    case wire::GenerateRequest::kTokenIds:
      out.prompt =
          std::vector<int32_t>(request.token_ids().ids().begin(), request.token_ids().ids().end());
      break;
    case wire::GenerateRequest::kChat: {
      SLUICE_ASSIGN_OR_RETURN(out.prompt, ReadChat(request.chat(), caps, out.add_special_tokens));
      break;
    }
    case wire::GenerateRequest::PROMPT_NOT_SET:
      return engine::InvalidArgument("prompt: is missing; one of text, chat and token_ids is due");
  }
  return out;
}

}  // namespace sluice::server::rpc
