#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "boost/json.hpp"
#include "engine/base/status.h"
#include "engine/template/value/limits.h"

namespace sluice::engine {

// A compiled chat template: the Jinja language as model files use it. Semantics follow Jinja2's
// ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True) with the extensions
// loopcontrols (break, continue), the functions raise_exception(message) and strftime_now(format),
// and the filter tojson (not HTML-escaped, keeps key order), as Hugging Face renders chat
// templates. Immutable after Compile; Render may be called from any number of threads at once.
class ChatTemplate {
 public:
  // InvalidArgument with line and column when the source does not parse or is too large.
  static absl::StatusOr<std::unique_ptr<const ChatTemplate>> Compile(std::string_view source,
                                                                     TemplateLimits limits = {});
  ~ChatTemplate();

  // Renders with `variables` as the global names (messages, add_generation_prompt, bos_token,
  // eos_token, tools, ...). InvalidArgument with line and column for errors that the template
  // raises or commits; ResourceExhausted when a budget runs out.
  absl::StatusOr<std::string> Render(const boost::json::object& variables) const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::engine
