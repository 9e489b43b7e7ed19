#include "engine/template/chat_template.h"

#include <utility>

#include "engine/template/evaluator.h"
#include "engine/template/lexer.h"
#include "engine/template/parser.h"
#include "engine/template/value/text.h"

namespace sluice::engine {

struct ChatTemplate::Impl {
  TemplateLimits limits;
  std::unique_ptr<const jinja::Template> parsed;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::~ChatTemplate() = default;

absl::StatusOr<std::unique_ptr<const ChatTemplate>> ChatTemplate::Compile(std::string_view source,
                                                                          TemplateLimits limits) {
  if (source.size() > limits.source_bytes_max) {
    return InvalidArgument("line 1, column 1: the template has " + std::to_string(source.size()) +
                           " bytes, more than the limit of " +
                           std::to_string(limits.source_bytes_max));
  }
  if (!jinja::IsValidUtf8(source)) {
    return InvalidArgument("line 1, column 1: the template is not valid UTF-8");
  }
  auto impl = std::make_unique<Impl>();
  impl->limits = limits;
  SLUICE_ASSIGN_OR_RETURN(impl->parsed,
                          jinja::Parse(jinja::NormalizeSource(source), limits.recursion_max));
  return std::unique_ptr<const ChatTemplate>(new ChatTemplate(std::move(impl)));
}

absl::StatusOr<std::string> ChatTemplate::Render(const boost::json::object& variables) const {
  return jinja::Evaluator(*impl_->parsed, impl_->limits).Render(variables);
}

}  // namespace sluice::engine
