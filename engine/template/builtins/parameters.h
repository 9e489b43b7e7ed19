#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/template/value/runtime.h"

namespace sluice::engine::jinja {

// Arguments matched to named parameters, as Python binds them. Fails when one is missing, unknown,
// given twice or too many; then ok() is false.
class Parameters {
 public:
  // The first `required` of `names` must be given.
  Parameters(Runtime& runtime, std::string_view callee, const Arguments& arguments,
             std::initializer_list<std::string_view> names, size_t required = 0);

  bool ok() const { return ok_; }
  // The i-th parameter's value; nullptr when it is not given.
  const Value* operator[](size_t i) const { return values_[i]; }

  // The value as the type that a builtin needs, or `fallback` when it is not given. A wrong type
  // fails.
  int64_t Integer(size_t i, int64_t fallback);
  bool Flag(size_t i, bool fallback) const;
  std::string Text(size_t i, std::string_view fallback);

 private:
  Runtime& runtime_;
  std::string callee_;
  std::vector<std::string_view> names_;
  std::vector<const Value*> values_;
  bool ok_ = true;
};

}  // namespace sluice::engine::jinja
