#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "server/models/prompt.h"
#include "server/models/served_model.h"

namespace sluice::server {

// The ids of a prompt that an answer is to follow. Errors begin with the field's name. OutOfRange:
// the prompt leaves no room for an answer in the context (with both numbers). InvalidArgument: it
// is empty, has ids that are not in the vocabulary, or the chat template refuses it.
absl::StatusOr<std::vector<int32_t>> ChatPromptIds(const ServedModel& model,
                                                   const ChatPrompt& prompt);
absl::StatusOr<std::vector<int32_t>> TextPromptIds(const ServedModel& model, std::string_view text,
                                                   const std::string& name,
                                                   std::optional<bool> add_special_tokens);
absl::StatusOr<std::vector<int32_t>> CheckedPromptIds(const ServedModel& model,
                                                      std::vector<int32_t> ids,
                                                      const std::string& name);

// InvalidArgument that names the first id that is not in the vocabulary.
absl::Status CheckInVocabulary(const ServedModel& model, const std::vector<int32_t>& ids,
                               const std::string& name);

}  // namespace sluice::server
