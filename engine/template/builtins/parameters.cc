#include "engine/template/builtins/parameters.h"

#include <algorithm>

#include "engine/template/value/operations.h"

namespace sluice::engine::jinja {

Parameters::Parameters(Runtime& runtime, std::string_view callee, const Arguments& arguments,
                       std::initializer_list<std::string_view> names, size_t required)
    : runtime_(runtime), callee_(callee), names_(names), values_(names.size(), nullptr) {
  const auto fail = [&](const std::string& problem) {
    runtime_.Fail(callee_ + "() " + problem);
    ok_ = false;
  };
  if (arguments.positional.size() > names_.size()) {
    fail("takes at most " + std::to_string(names_.size()) + " argument(s), got " +
         std::to_string(arguments.positional.size()));
    return;
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto it = std::find(names_.begin(), names_.end(), name);
    if (it == names_.end()) {
      fail("got an unexpected argument '" + name + "'");
      return;
    }
    const Value*& slot = values_[static_cast<size_t>(it - names_.begin())];
    if (slot) {
      fail("got multiple values for argument '" + name + "'");
      return;
    }
    slot = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (!values_[i] && ok_) fail("misses the argument '" + std::string(names_[i]) + "'");
  }
}

int64_t Parameters::Integer(size_t i, int64_t fallback) {
  int64_t value = fallback;
  if (values_[i] && !values_[i]->ToInteger(&value)) {
    runtime_.Fail(callee_ + "() needs an integer for '" + std::string(names_[i]) + "', got " +
                  values_[i]->TypeName());
    ok_ = false;
  }
  return value;
}

bool Parameters::Flag(size_t i, bool fallback) const {
  return values_[i] ? Truth(*values_[i]) : fallback;
}

std::string Parameters::Text(size_t i, std::string_view fallback) {
  if (!values_[i]) return std::string(fallback);
  if (const String* text = values_[i]->string()) return text->text;
  runtime_.Fail(callee_ + "() needs a string for '" + std::string(names_[i]) + "', got " +
                values_[i]->TypeName());
  ok_ = false;
  return "";
}

}  // namespace sluice::engine::jinja
