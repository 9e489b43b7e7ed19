#include "server/openai/prompt_tokens.h"

#include <algorithm>

namespace sluice::server::openai {
namespace {

// Up to here the tokens of a prompt that is too long are counted, so that the error can name their
// number.
size_t CountedTokens(const ServedModel& model) {
  return std::max<size_t>(static_cast<size_t>(model.facts.context_tokens) * 4, 1 << 16);
}

ApiError TooLong(const ServedModel& model, const std::string& name, const std::string& count) {
  ApiError error;
  error.message = name + ": " + count + " tokens, but the context holds " +
                  std::to_string(model.facts.context_tokens) +
                  " (of which at least 1 is for the answer)";
  error.param = name;
  error.code = "context_length_exceeded";
  return error;
}

TokensOrError Checked(const ServedModel& model, const std::string& name,
                      absl::StatusOr<std::vector<int32_t>> ids) {
  if (absl::IsOutOfRange(ids.status())) {
    return TooLong(model, name, "more than " + std::to_string(CountedTokens(model)));
  }
  if (!ids.ok()) {
    ApiError error = FromStatus(ids.status(), 0);
    if (error.param.empty()) error.param = name;
    return error;
  }
  if (ids->empty()) return ApiError{400, name + ": it is empty", name, "invalid_value"};
  if (ids->size() >= static_cast<size_t>(model.facts.context_tokens)) {
    return TooLong(model, name, std::to_string(ids->size()));
  }
  return std::move(*ids);
}

}  // namespace

TokensOrError ChatTokens(const ServedModel& model, const ChatPrompt& prompt) {
  return Checked(model, "messages", EncodeChat(model, prompt, CountedTokens(model)));
}

TokensOrError PromptTokens(const ServedModel& model, const WirePrompt& prompt,
                           const std::string& name, std::optional<bool> add_special_tokens) {
  if (const auto* text = std::get_if<std::string>(&prompt)) {
    return Checked(model, name, EncodeText(model, *text, add_special_tokens, CountedTokens(model)));
  }
  const auto& ids = std::get<std::vector<int32_t>>(prompt);
  const int32_t vocabulary = model.facts.tokenizer->vocab_size();
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < vocabulary) continue;
    const std::string item = name + "[" + std::to_string(i) + "]";
    return ApiError{400,
                    item + ": token " + std::to_string(ids[i]) + " is not in the vocabulary of " +
                        std::to_string(vocabulary),
                    item, "invalid_value"};
  }
  return Checked(model, name, ids);
}

}  // namespace sluice::server::openai
