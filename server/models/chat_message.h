#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "server/models/prompt.h"

namespace sluice::server {

// A message of a chat as the wire has it, whatever the dialect.
struct ChatMessage {
  std::string role;
  std::optional<std::string> content;
  std::string name;  // this and the next two: left out where empty
  std::string tool_call_id;
  std::string reasoning_content;
  boost::json::array tool_calls;  // {"id","type":"function","function":{"name","arguments"}}
};

// What a template reads of it, in the form of ChatPrompt::messages. InvalidArgument "role: ..." or
// "content: ..." when it can't be.
absl::StatusOr<boost::json::object> TemplateMessage(ChatMessage message);

// InvalidArgument "chat_template_kwargs: ..." when the caller sets names that only the server may
// give to a template.
absl::Status CheckTemplateArguments(const boost::json::object& arguments);

// InvalidArgument "continue_final_message: ..." when the last message can't be gone on with.
// `generation_prompt_wanted`: the caller set add_generation_prompt.
absl::Status CheckContinuation(const ChatPrompt& prompt, bool generation_prompt_wanted);

}  // namespace sluice::server
