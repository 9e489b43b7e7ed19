#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/template/value/runtime.h"

namespace sluice::engine::jinja {

// The `attribute` argument of filters: "author.name", "items.0", or an index. Without one, the item
// itself.
class AttributeGetter {
 public:
  // `attribute` may be null. A wrong type fails.
  AttributeGetter(Runtime& runtime, const Value* attribute);

  void set_default(const Value* fallback) { default_ = fallback; }
  // Strings come back in lower case: how filters compare when case does not count.
  void set_ignore_case(bool ignore) { ignore_case_ = ignore; }
  // "a,b" stands for the list of both attributes.
  void set_several(bool several);

  Value Get(const Value& item) const;

 private:
  Value GetPath(const Value& item, const std::vector<Value>& path) const;

  Runtime& runtime_;
  std::string text_;
  std::vector<std::vector<Value>> paths_;
  const Value* default_ = nullptr;
  bool ignore_case_ = false;
};

// The value in lower case if it is a string, else as it is.
Value IgnoreCase(Runtime& runtime, const Value& value);

}  // namespace sluice::engine::jinja
