// A chat template and the variables that it is rendered with, under small budgets.
//
// Input: the template, a zero byte, the variables as JSON. Without variables there is a
// conversation with tools.

#include <string>

#include "boost/json.hpp"
#include "engine/template/chat_template.h"
#include "engine/template/value/text.h"
#include "tests/fuzz/input.h"

namespace {

using namespace sluice::engine;
using sluice::testing::Require;

constexpr char kVariables[] = R"({
  "bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": true,
  "messages": [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": " Gr\u00fc\u00dfe <|x|> "},
    {"role": "assistant", "content": null, "tool_calls": [{"id": "abcdefghi", "type": "function",
      "function": {"name": "f", "arguments": {"a": [1, 2.5, true, null], "b": "x"}}}]},
    {"role": "tool", "content": "{\"t\": 1}", "tool_call_id": "abcdefghi"},
    {"role": "user", "content": [{"type": "text", "text": "part"}, {"type": "image"}]}],
  "tools": [{"type": "function", "function": {"name": "f", "description": "d",
    "parameters": {"type": "object", "properties": {"a": {"type": "array"}}}}}],
  "n": 3, "l": [3, 1, 2], "s": "Hello, World", "d": {"k": 1, "j": [1]}})";

boost::json::object Variables(std::string_view text) {
  static const boost::json::object usual = boost::json::parse(kVariables).as_object();
  boost::json::parse_options options;
  options.max_depth = 64;
  boost::system::error_code error;
  const auto json =
      boost::json::parse(boost::json::string_view(text.data(), text.size()), error, {}, options);
  return !error && json.is_object() ? json.get_object() : usual;
}

bool HasPosition(const absl::Status& status) {
  return Message(status).find("line ") != std::string::npos;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sluice::testing::FuzzInput input(data, size);
  const std::string_view source = input.Line();
  TemplateLimits limits;
  limits.work_max = 100'000;
  limits.output_bytes_max = 256 << 10;
  const auto compiled = ChatTemplate::Compile(source, limits);
  if (!compiled.ok()) {
    Require(HasPosition(compiled.status()), "errors say where", Message(compiled.status()));
    return 0;
  }
  const auto variables = Variables(input.Rest());
  const auto first = (*compiled)->Render(variables);
  if (!first.ok()) {
    Require(absl::IsInvalidArgument(first.status()) || absl::IsResourceExhausted(first.status()),
            "errors are the template's or the budget's", Message(first.status()));
    return 0;
  }
  Require(first->size() <= limits.output_bytes_max, "the output keeps its limit");
  Require(jinja::IsValidUtf8(*first), "the output is valid UTF-8", *first);
  // The clock is the one thing that may differ.
  if (source.find("strftime_now") == std::string_view::npos) {
    const auto second = (*compiled)->Render(variables);
    Require(second.ok() && *second == *first, "rendering is a function", *first);
  }
  return 0;
}
