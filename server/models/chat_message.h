#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
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

// How many values (of JSON) one chat may give to its template besides the messages' texts. Each
// costs a hundred times its bytes and more: it is searched for control strings, and the template
// has its own copy.
class TemplateValues {
 public:
  explicit TemplateValues(int64_t most) : most_(most), left_(most) {}

  // InvalidArgument "FIELD: ..." when there are more than are left.
  absl::Status Take(std::string_view field, int64_t count);
  absl::Status Take(std::string_view field, const boost::json::value& value);

 private:
  const int64_t most_;
  int64_t left_;
};

// What a template reads of it, in the form of ChatPrompt::messages. InvalidArgument "role: ...",
// "content: ..." or "tool_calls: ..." when it can't be.
absl::StatusOr<boost::json::object> TemplateMessage(ChatMessage message, TemplateValues* values);

// InvalidArgument "chat_template_kwargs: ..." when the caller sets names that only the server may
// give to a template.
absl::Status CheckTemplateArguments(const boost::json::object& arguments);

// InvalidArgument "continue_final_message: ..." when the last message can't be gone on with.
// `generation_prompt_wanted`: the caller set add_generation_prompt.
absl::Status CheckContinuation(const ChatPrompt& prompt, bool generation_prompt_wanted);

}  // namespace sluice::server
