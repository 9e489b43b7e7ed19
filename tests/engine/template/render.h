#pragma once

#include <string>
#include <string_view>

#include "boost/json.hpp"
#include "engine/template/chat_template.h"

namespace sluice::engine {

// The rendered text, or "error: " and the message.
inline std::string RenderText(std::string_view source, std::string_view variables = "{}",
                              TemplateLimits limits = {}) {
  auto compiled = ChatTemplate::Compile(source, limits);
  if (!compiled.ok()) return "error: " + Message(compiled.status());
  const boost::json::value json =
      boost::json::parse(boost::json::string_view(variables.data(), variables.size()));
  auto rendered = (*compiled)->Render(json.as_object());
  return rendered.ok() ? *rendered : "error: " + Message(rendered.status());
}

// The status of compiling and rendering.
inline absl::Status RenderStatus(std::string_view source, const boost::json::object& variables = {},
                                 TemplateLimits limits = {}) {
  auto compiled = ChatTemplate::Compile(source, limits);
  return compiled.ok() ? (*compiled)->Render(variables).status() : compiled.status();
}

}  // namespace sluice::engine
