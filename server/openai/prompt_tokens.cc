#include "server/openai/prompt_tokens.h"

#include "server/models/prompt_tokens.h"

namespace sluice::server::openai {
namespace {

TokensOrError ToWire(const std::string& name, absl::StatusOr<std::vector<int32_t>> ids) {
  if (ids.ok()) return std::move(*ids);
  ApiError error = FromStatus(ids.status(), 0);
  if (error.param.empty()) error.param = name;
  return error;
}

}  // namespace

TokensOrError ChatTokens(const ServedModel& model, const ChatPrompt& prompt) {
  return ToWire("messages", ChatPromptIds(model, prompt));
}

TokensOrError PromptTokens(const ServedModel& model, const WirePrompt& prompt,
                           const std::string& name, std::optional<bool> add_special_tokens) {
  if (const auto* text = std::get_if<std::string>(&prompt)) {
    return ToWire(name, TextPromptIds(model, *text, name, add_special_tokens));
  }
  return ToWire(name, CheckedPromptIds(model, std::get<std::vector<int32_t>>(prompt), name));
}

}  // namespace sluice::server::openai
