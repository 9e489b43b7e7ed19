#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "server/models/prompt.h"
#include "server/models/served_model.h"
#include "server/openai/request_fields.h"

namespace sluice::server::openai {

using TokensOrError = std::variant<std::vector<int32_t>, ApiError>;

// The prompt's ids, or an error that names the field: a prompt that leaves no room for an answer in
// the context is one, with both numbers (code "context_length_exceeded"), an empty one too.
TokensOrError ChatTokens(const ServedModel& model, const ChatPrompt& prompt);
TokensOrError PromptTokens(const ServedModel& model, const WirePrompt& prompt,
                           const std::string& name, std::optional<bool> add_special_tokens);

}  // namespace sluice::server::openai
