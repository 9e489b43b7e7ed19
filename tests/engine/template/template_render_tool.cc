// Renders templates for the comparison with Jinja2: reads lines of {"template": ..., "variables":
// {...}} and answers each with a line of {"output": ...} or {"error": ..., "code": ...}.
#include <iostream>
#include <string>

#include "boost/json.hpp"
#include "engine/template/chat_template.h"

namespace {

boost::json::object Answer(const std::string& line) {
  using sluice::engine::ChatTemplate;
  const auto error = [](const absl::Status& status) {
    return boost::json::object{{"error", sluice::engine::Message(status)},
                               {"code", static_cast<int>(status.code())}};
  };
  boost::json::parse_options options;
  options.max_depth = 512;
  const boost::json::value request = boost::json::parse(line, {}, options);
  const auto& source = request.at("template").as_string();
  auto compiled = ChatTemplate::Compile(std::string_view(source.data(), source.size()));
  if (!compiled.ok()) return error(compiled.status());
  auto rendered = (*compiled)->Render(request.at("variables").as_object());
  if (!rendered.ok()) return error(rendered.status());
  return {{"output", *rendered}};
}

}  // namespace

int main() {
  std::ios::sync_with_stdio(false);
  for (std::string line; std::getline(std::cin, line);) {
    try {
      std::cout << boost::json::serialize(Answer(line)) << std::endl;
    } catch (const std::exception& e) {
      std::cout << boost::json::serialize(boost::json::object{{"bad_request", e.what()}})
                << std::endl;
    }
  }
  return 0;
}
