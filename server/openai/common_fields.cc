#include "server/openai/common_fields.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace sluice::server::openai {
namespace {

namespace json = boost::json;

constexpr int32_t kInt32Max = std::numeric_limits<int32_t>::max();

void ReadStop(const FieldReader& fields, const RequestCaps& caps, engine::StopParams* stop) {
  const json::value* value = fields.Get("stop");
  if (value == nullptr) return;
  if (const auto* text = value->if_string()) {
    stop->strings.emplace_back(View(*text));
    return;
  }
  const auto* list = value->if_array();
  if (list == nullptr) return fields.FailType("stop", "a string or a list of strings", *value);
  if (list->size() > static_cast<size_t>(caps.stop_max)) {
    return fields.Fail("stop", std::to_string(list->size()) + " entries, at most " +
                                   std::to_string(caps.stop_max));
  }
  for (size_t i = 0; i < list->size(); ++i) {
    const auto* text = (*list)[i].if_string();
    if (text == nullptr) {
      return fields.FailType("stop[" + std::to_string(i) + "]", "a string", (*list)[i]);
    }
    stop->strings.emplace_back(View(*text));
  }
}

void ReadStopTokens(const FieldReader& fields, const RequestCaps& caps, engine::StopParams* stop) {
  const json::array* list = fields.Array("stop_token_ids");
  if (list == nullptr) return;
  if (list->size() > static_cast<size_t>(caps.stop_token_max)) {
    return fields.Fail("stop_token_ids", std::to_string(list->size()) + " entries, at most " +
                                             std::to_string(caps.stop_token_max));
  }
  ReadTokenIds(fields, "stop_token_ids", *list, &stop->token_ids);
}

void ReadLogitBias(const FieldReader& fields, const RequestCaps& caps,
                   engine::SamplingParams* sampling) {
  const json::object* biases = fields.Object("logit_bias");
  if (biases == nullptr) return;
  if (biases->size() > static_cast<size_t>(caps.logit_bias_max)) {
    return fields.Fail("logit_bias", std::to_string(biases->size()) + " entries, at most " +
                                         std::to_string(caps.logit_bias_max));
  }
  std::optional<ApiError> inner;
  const FieldReader values(*biases, "logit_bias.", &inner);
  for (const auto& member : *biases) {
    const std::string_view key = View(member.key());
    int32_t token = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
    if (error != std::errc() || end != key.data() + key.size()) {
      return fields.Fail("logit_bias", "the key \"" + Clip(key) + "\" is not a token id");
    }
    float bias = 0;
    if (values.Get(key) == nullptr) continue;
    values.Float(key, &bias);
    if (inner)
      return fields.Fail("logit_bias", "of token " + std::string(key) + ": " + inner->message);
    sampling->logit_bias.emplace_back(token, bias);
  }
}

void ReadSeed(const FieldReader& fields, CommonFields* out) {
  const json::value* value = fields.Get("seed");
  if (value == nullptr) return;
  if (const auto* large = value->if_uint64()) {
    out->seed = *large;
  } else if (const auto number = WholeNumber(*value)) {
    out->seed = static_cast<uint64_t>(*number);
  } else {
    fields.FailType("seed", "a whole number of at most 64 bits", *value);
  }
}

void ReadStreaming(const FieldReader& fields, CommonFields* out) {
  fields.Bool("stream", &out->stream);
  const json::object* options = fields.Object("stream_options");
  if (options == nullptr) return;
  if (!out->stream) return fields.Fail("stream_options", "is allowed only with stream: true");
  std::optional<ApiError> error;
  const FieldReader inner(*options, "stream_options.", &error);
  inner.Bool("include_usage", &out->include_usage);
  inner.Bool("continuous_usage_stats", &out->continuous_usage);
  if (error) fields.Fail("stream_options", error->message, error->code);
}

// Which values of a feature's field ask for nothing and pass.
enum class Off { kNever, kFalse, kEmpty, kZero };

struct Feature {
  const char* field;
  Off off = Off::kEmpty;
};

constexpr Feature kFeatures[] = {
    {"structured_outputs"},
    {"guided_json"},
    {"guided_regex"},
    {"guided_choice"},
    {"guided_grammar"},
    {"guided_whitespace_pattern"},
    {"grammar"},
    {"json_schema"},
    {"regex"},
    {"ebnf"},
    {"structural_tag"},
    {"prompt_logprobs", Off::kFalse},
    {"logprob_token_ids"},
    {"use_beam_search", Off::kFalse},
    {"allowed_token_ids"},
    {"bad_words"},
    {"truncate_prompt_tokens", Off::kNever},
    {"prompt_embeds", Off::kNever},
    {"input_ids", Off::kNever},
    {"stop_regex"},
    {"custom_logit_processor"},
    {"lora"},
    {"lora_path"},
    {"lora_request"},
    {"kv_transfer_params"},
    {"thinking_token_budget", Off::kNever},
    {"return_hidden_states", Off::kFalse},
};

constexpr Feature kChatFeatures[] = {
    {"tools"},
    {"functions"},
    {"chat_template", Off::kNever},
    {"documents"},
    {"audio"},
    {"web_search_options", Off::kNever},
    {"top_logprobs", Off::kZero},
    {"logprobs", Off::kFalse},
};

constexpr Feature kCompletionFeatures[] = {
    {"suffix"},
    {"logprobs", Off::kFalse},
};

bool AsksForNothing(const json::value& value, Off off) {
  switch (off) {
    case Off::kNever:
      return false;
    case Off::kFalse:
      return value.is_bool() && !value.get_bool();
    case Off::kZero:
      return WholeNumber(value) == 0;
    case Off::kEmpty:
      return (value.is_string() && value.get_string().empty()) ||
             (value.is_array() && value.get_array().empty()) ||
             (value.is_object() && value.get_object().empty());
  }
  return false;
}

void Refuse(const FieldReader& fields, std::string_view name) {
  fields.Fail(name, "this server does not support it", "unsupported_parameter");
}

template <size_t N>
void RefuseAll(const FieldReader& fields, const Feature (&features)[N]) {
  for (const Feature& feature : features) {
    const json::value* value = fields.Get(feature.field);
    if (value != nullptr && !AsksForNothing(*value, feature.off)) Refuse(fields, feature.field);
  }
}

// "auto" and "none" change nothing when there are no tools.
void RefuseToolChoice(const FieldReader& fields, std::string_view name) {
  const json::value* value = fields.Get(name);
  if (value == nullptr) return;
  const auto* word = value->if_string();
  if (word != nullptr && (*word == "none" || *word == "auto")) return;
  Refuse(fields, name);
}

void CheckResponseFormat(const FieldReader& fields) {
  const json::object* format = fields.Object("response_format");
  if (format == nullptr) return;
  std::string type;
  std::optional<ApiError> error;
  FieldReader(*format, "response_format.", &error).String("type", &type);
  if (error) return fields.Fail("response_format", error->message, error->code);
  if (type == "text") return;
  fields.Fail("response_format",
              "type \"" + Clip(type) + "\" is not supported by this server; it supports \"text\"",
              "unsupported_parameter");
}

void CheckModalities(const FieldReader& fields) {
  const json::array* list = fields.Array("modalities");
  if (list == nullptr) return;
  for (const json::value& item : *list) {
    if (!item.is_string() || item.get_string() != "text") {
      return fields.Fail("modalities", Show(item) + " is not supported; this server makes \"text\"",
                         "unsupported_parameter");
    }
  }
}

void CheckBestOf(const FieldReader& fields, int32_t n) {
  int32_t best_of = n;
  fields.Int("best_of", 1, kInt32Max, &best_of);
  if (best_of != n) {
    fields.Fail("best_of",
                std::to_string(best_of) + " is not supported; it must equal n, which is " +
                    std::to_string(n),
                "unsupported_parameter");
  }
}

}  // namespace

void ReadTokenIds(const FieldReader& fields, std::string_view name, const json::array& values,
                  std::vector<int32_t>* out) {
  out->reserve(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string item = std::string(name) + "[" + std::to_string(i) + "]";
    if (!values[i].is_number()) return fields.FailType(item, "a token id", values[i]);
    const std::optional<int64_t> id = WholeNumber(values[i]);
    if (!id || *id < 0 || *id > kInt32Max) {
      return fields.Fail(item, Show(values[i]) + " is not a token id");
    }
    out->push_back(static_cast<int32_t>(*id));
  }
}

void ReadCommon(const FieldReader& fields, const RequestCaps& caps, int64_t max_tokens_low,
                CommonFields* out) {
  fields.String("model", &out->model);
  engine::SamplingParams& sampling = out->sampling;
  fields.Float("temperature", &sampling.temperature);
  fields.Float("top_p", &sampling.top_p);
  fields.Float("min_p", &sampling.min_p);
  fields.Float("presence_penalty", &sampling.presence_penalty);
  fields.Float("frequency_penalty", &sampling.frequency_penalty);
  fields.Float("repetition_penalty", &sampling.repetition_penalty);
  fields.Int("top_k", -1, kInt32Max, &sampling.top_k);
  sampling.top_k = std::max(sampling.top_k, 0);  // -1 is vLLM's "off"
  ReadSeed(fields, out);
  ReadLogitBias(fields, caps, &sampling);
  ReadStop(fields, caps, &out->stop);
  ReadStopTokens(fields, caps, &out->stop);
  fields.Bool("include_stop_str_in_output", &out->stop.include_stop_string);
  fields.Bool("skip_special_tokens", &out->stop.skip_special_tokens);
  fields.Bool("ignore_eos", &out->stop.ignore_eos);
  fields.Int("min_tokens", 0, kInt32Max, &out->stop.min_tokens);
  int32_t max_tokens = -1;
  fields.Int("max_tokens", max_tokens_low, kInt32Max, &max_tokens);
  fields.Int("max_completion_tokens", max_tokens_low, kInt32Max, &max_tokens);
  if (max_tokens >= 0) out->max_tokens = max_tokens;
  fields.Int("n", 1, caps.answers_max, &out->n);
  CheckBestOf(fields, out->n);
  ReadStreaming(fields, out);
  fields.Bool("return_token_ids", &out->return_token_ids);
  fields.Bool("add_special_tokens", &out->add_special_tokens);
  fields.Int("priority", -kInt32Max, kInt32Max, &out->terms.priority);
  fields.String("cache_salt", &out->terms.cache_salt);
  fields.Int("ttft_slo_ms", 0, kTargetMsMax, &out->terms.first_token_target_ms);
  fields.Int("tpot_slo_ms", 0, kTargetMsMax, &out->terms.inter_token_target_ms);
}

void RefuseMissingFeatures(const FieldReader& fields, bool chat) {
  RefuseAll(fields, kFeatures);
  CheckResponseFormat(fields);
  if (chat) {
    RefuseAll(fields, kChatFeatures);
    RefuseToolChoice(fields, "tool_choice");
    RefuseToolChoice(fields, "function_call");
    CheckModalities(fields);
  } else {
    RefuseAll(fields, kCompletionFeatures);
  }
}

}  // namespace sluice::server::openai
