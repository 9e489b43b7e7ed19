#include "engine/template/builtins/attribute_getter.h"

#include <algorithm>

#include "engine/template/builtins/registry.h"
#include "engine/template/builtins/text_search.h"
#include "engine/template/value/text.h"

namespace sluice::engine::jinja {
namespace {

// "author.name" as the keys of its parts; digits are indices.
std::vector<Value> ParsePath(Runtime& runtime, std::string_view text) {
  std::vector<Value> path;
  for (std::string_view part : SplitAt(text, ".", -1, false)) {
    const bool digits = !part.empty() && part.size() < 18 &&
                        part.find_first_not_of("0123456789") == std::string_view::npos;
    path.push_back(digits ? Value(static_cast<int64_t>(std::stoll(std::string(part))))
                          : runtime.MakeText(part));
  }
  return path;
}

}  // namespace

Value IgnoreCase(Runtime& runtime, const Value& value) {
  const String* text = value.string();
  return text ? runtime.MakeText(ToLower(text->text)) : value;
}

AttributeGetter::AttributeGetter(Runtime& runtime, const Value* attribute) : runtime_(runtime) {
  int64_t index;
  if (!attribute || attribute->is_none()) return;
  if (const String* text = attribute->string()) {
    text_ = text->text;
    paths_ = {ParsePath(runtime, text_)};
  } else if (attribute->ToInteger(&index)) {
    paths_ = {{Value(index)}};
  } else {
    runtime.Fail("an attribute is named by a string or an integer, not " + attribute->TypeName());
  }
}

void AttributeGetter::set_several(bool several) {
  if (!several || text_.find(',') == std::string::npos) return;
  paths_.clear();
  for (std::string_view part : SplitAt(text_, ",", -1, false)) {
    paths_.push_back(ParsePath(runtime_, part));
  }
}

Value AttributeGetter::GetPath(const Value& item, const std::vector<Value>& path) const {
  Value value = item;
  for (const Value& key : path) {
    if (!runtime_.Charge(1)) return Value();
    value = GetItem(runtime_, value, key);
    if (default_ && value.is_undefined()) value = *default_;
  }
  return ignore_case_ ? IgnoreCase(runtime_, value) : value;
}

Value AttributeGetter::Get(const Value& item) const {
  if (paths_.empty()) return ignore_case_ ? IgnoreCase(runtime_, item) : item;
  if (paths_.size() == 1) return GetPath(item, paths_[0]);
  std::vector<Value> values;
  for (const auto& path : paths_) values.push_back(GetPath(item, path));
  return runtime_.MakeList(std::move(values));
}

}  // namespace sluice::engine::jinja
