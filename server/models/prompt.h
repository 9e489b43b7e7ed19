#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "server/models/served_model.h"

namespace sluice::server {

struct ChatPrompt {
  // Objects with "role" and "content" (a string), and what else templates read: "name",
  // "tool_calls", "tool_call_id", "reasoning_content". Roles are trusted, every other string is the
  // caller's.
  boost::json::array messages;
  bool add_generation_prompt = true;
  // The last message is left open, to be gone on with.
  bool continue_final_message = false;
  boost::json::object template_arguments;  // more names for the template
  std::optional<bool> add_special_tokens;
};

// All functions: InvalidArgument for what the caller can mend; OutOfRange when the text has more
// than `max_tokens` tokens. The first token is bos exactly once if the model wants it.

// Renders and encodes. Control strings in the messages stay text.
absl::StatusOr<std::vector<int32_t>> EncodeChat(const ServedModel& model, const ChatPrompt& prompt,
                                                size_t max_tokens);

// A prompt that the caller wrote as a whole: control strings in it are meant.
absl::StatusOr<std::vector<int32_t>> EncodeText(const ServedModel& model, std::string_view text,
                                                std::optional<bool> add_special_tokens,
                                                size_t max_tokens);

}  // namespace sluice::server
