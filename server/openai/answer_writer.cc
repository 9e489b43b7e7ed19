#include "server/openai/answer_writer.h"

#include <charconv>

#include "server/http/json_text.h"
#include "server/models/finish_name.h"

namespace sluice::server::openai {
namespace {

void AppendNumber(std::string* out, int64_t number) {
  char text[24];
  const auto [end, error] = std::to_chars(text, text + sizeof text, number);
  out->append(text, end);
}

void AppendIds(std::string* out, std::string_view name, const std::vector<int32_t>& ids) {
  *out += ",\"";
  *out += name;
  *out += "\":[";
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) *out += ',';
    AppendNumber(out, ids[i]);
  }
  *out += ']';
}

void AppendUsage(std::string* out, const Usage& usage) {
  *out += ",\"usage\":{\"prompt_tokens\":";
  AppendNumber(out, usage.prompt_tokens);
  *out += ",\"completion_tokens\":";
  AppendNumber(out, usage.completion_tokens);
  *out += ",\"total_tokens\":";
  AppendNumber(out, usage.prompt_tokens + usage.completion_tokens);
  *out += ",\"prompt_tokens_details\":{\"cached_tokens\":";
  AppendNumber(out, usage.cached_tokens);
  *out += "}}";
}

void AppendStop(std::string* out, engine::FinishReason reason, const StopReason& stop) {
  *out += ",\"logprobs\":null,\"finish_reason\":\"";
  *out += FinishName(reason);
  *out += "\",\"stop_reason\":";
  if (const auto* id = std::get_if<int32_t>(&stop)) {
    AppendNumber(out, *id);
  } else if (const auto* text = std::get_if<std::string>(&stop)) {
    AppendJsonString(*out, *text);
  } else {
    *out += "null";
  }
}

std::string_view ObjectName(Endpoint endpoint, bool chunk) {
  if (endpoint == Endpoint::kCompletions) return "text_completion";
  return chunk ? "chat.completion.chunk" : "chat.completion";
}

std::string Head(const AnswerFacts& facts, bool chunk) {
  std::string head = "{\"id\":";
  AppendJsonString(head, facts.id);
  head += ",\"object\":";
  AppendJsonString(head, ObjectName(facts.endpoint, chunk));
  head += ",\"created\":";
  AppendNumber(&head, facts.created);
  head += ",\"model\":";
  AppendJsonString(head, facts.model);
  head += ",\"system_fingerprint\":";
  AppendJsonString(head, facts.fingerprint);
  head += ",\"choices\":";
  return head;
}

}  // namespace

AnswerWriter::AnswerWriter(AnswerFacts facts)
    : facts_(std::move(facts)),
      head_(Head(facts_, false)),
      event_head_("data: " + Head(facts_, true) + "[{\"index\":") {}

void AnswerWriter::Open(std::string* out, int32_t index) const {
  *out += event_head_;
  AppendNumber(out, index);
}

void AnswerWriter::Close(std::string* out, const Usage& usage) const {
  *out += "}]";
  if (facts_.include_usage) {
    if (facts_.continuous_usage) {
      AppendUsage(out, usage);
    } else {
      *out += ",\"usage\":null";
    }
  }
  *out += "}\n\n";
}

void AnswerWriter::Role(std::string* out, int32_t index, const std::vector<int32_t>* prompt_ids,
                        const Usage& usage) const {
  Open(out, index);
  *out += facts_.endpoint == Endpoint::kChat
              ? ",\"delta\":{\"role\":\"assistant\",\"content\":\"\"}"
              : ",\"text\":\"\"";
  *out += ",\"logprobs\":null,\"finish_reason\":null";
  if (prompt_ids != nullptr) AppendIds(out, "prompt_token_ids", *prompt_ids);
  Close(out, usage);
}

void AnswerWriter::Text(std::string* out, int32_t index, std::string_view text,
                        const std::vector<int32_t>& token_ids, const Usage& usage) const {
  Open(out, index);
  const bool chat = facts_.endpoint == Endpoint::kChat;
  *out += chat ? ",\"delta\":{\"content\":\"" : ",\"text\":\"";
  AppendJsonEscaped(*out, text);
  *out += chat ? "\"},\"logprobs\":null,\"finish_reason\":null"
               : "\",\"logprobs\":null,\"finish_reason\":null";
  if (facts_.return_token_ids) AppendIds(out, "token_ids", token_ids);
  Close(out, usage);
}

void AnswerWriter::Finish(std::string* out, int32_t index, engine::FinishReason reason,
                          const StopReason& stop, const std::vector<int32_t>& token_ids,
                          const Usage& usage) const {
  Open(out, index);
  *out += facts_.endpoint == Endpoint::kChat ? ",\"delta\":{}" : ",\"text\":\"\"";
  AppendStop(out, reason, stop);
  if (facts_.return_token_ids) AppendIds(out, "token_ids", token_ids);
  Close(out, usage);
}

void AnswerWriter::FinalUsage(std::string* out, const Usage& usage) const {
  *out += "data: ";
  *out += Head(facts_, true);
  *out += "[]";
  AppendUsage(out, usage);
  *out += "}\n\n";
}

void AnswerWriter::Error(std::string* out, std::string_view error_json) {
  *out += "data: ";
  *out += error_json;
  *out += "\n\n";
}

void AnswerWriter::Done(std::string* out) { *out += "data: [DONE]\n\n"; }

std::string AnswerWriter::Body(const std::vector<Choice>& choices, const Usage& usage) const {
  const bool chat = facts_.endpoint == Endpoint::kChat;
  std::string out = head_ + "[";
  for (const Choice& choice : choices) {
    if (out.back() == '}') out += ',';
    out += "{\"index\":";
    AppendNumber(&out, choice.index);
    out += chat ? ",\"message\":{\"role\":\"assistant\",\"content\":\"" : ",\"text\":\"";
    AppendJsonEscaped(out, choice.text);
    out += chat ? "\",\"refusal\":null}" : "\"";
    AppendStop(&out, choice.finish, choice.stop_reason);
    if (facts_.return_token_ids) {
      AppendIds(&out, "token_ids", choice.token_ids);
      if (!chat && choice.prompt_ids != nullptr) {
        AppendIds(&out, "prompt_token_ids", *choice.prompt_ids);
      }
    }
    out += '}';
  }
  out += ']';
  AppendUsage(&out, usage);
  // A chat has one prompt, so its ids are the answer's, not each choice's.
  if (chat && !choices.empty() && choices.front().prompt_ids != nullptr) {
    AppendIds(&out, "prompt_token_ids", *choices.front().prompt_ids);
  }
  out += '}';
  return out;
}

}  // namespace sluice::server::openai
