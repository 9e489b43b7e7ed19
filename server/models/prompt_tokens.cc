#include "server/models/prompt_tokens.h"

#include <algorithm>

namespace sluice::server {
namespace {

// Up to here the tokens of a prompt that is too long are counted, so that the error can name their
// number.
size_t CountedTokens(const ServedModel& model) {
  return std::max<size_t>(static_cast<size_t>(model.facts.context_tokens) * 4, 1 << 16);
}

absl::Status TooLong(const ServedModel& model, const std::string& name, const std::string& count) {
  return engine::OutOfRange(name + ": " + count + " tokens, but the context holds " +
                            std::to_string(model.facts.context_tokens) +
                            " (of which at least 1 is for the answer)");
}

absl::StatusOr<std::vector<int32_t>> Checked(const ServedModel& model, const std::string& name,
                                             absl::StatusOr<std::vector<int32_t>> ids) {
  if (absl::IsOutOfRange(ids.status())) {
    return TooLong(model, name, "more than " + std::to_string(CountedTokens(model)));
  }
  if (!ids.ok()) return ids.status();
  if (ids->empty()) return engine::InvalidArgument(name + ": it is empty");
  if (ids->size() >= static_cast<size_t>(model.facts.context_tokens)) {
    return TooLong(model, name, std::to_string(ids->size()));
  }
  return ids;
}

}  // namespace

absl::StatusOr<std::vector<int32_t>> ChatPromptIds(const ServedModel& model,
                                                   const ChatPrompt& prompt) {
  return Checked(model, "messages", EncodeChat(model, prompt, CountedTokens(model)));
}

absl::StatusOr<std::vector<int32_t>> TextPromptIds(const ServedModel& model, std::string_view text,
                                                   const std::string& name,
                                                   std::optional<bool> add_special_tokens) {
  return Checked(model, name, EncodeText(model, text, add_special_tokens, CountedTokens(model)));
}

absl::StatusOr<std::vector<int32_t>> CheckedPromptIds(const ServedModel& model,
                                                      std::vector<int32_t> ids,
                                                      const std::string& name) {
  SLUICE_RETURN_IF_ERROR(CheckInVocabulary(model, ids, name));
  return Checked(model, name, std::move(ids));
}

absl::Status CheckInVocabulary(const ServedModel& model, const std::vector<int32_t>& ids,
                               const std::string& name) {
  const int32_t vocabulary = model.facts.tokenizer->vocab_size();
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < vocabulary) continue;
    return engine::InvalidArgument(name + "[" + std::to_string(i) + "]: token " +
                                   std::to_string(ids[i]) + " is not in the vocabulary of " +
                                   std::to_string(vocabulary));
  }
  return absl::OkStatus();
}

}  // namespace sluice::server
