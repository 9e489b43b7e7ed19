#include "engine/template/value/runtime.h"

#include <algorithm>

#include "engine/template/value/text.h"

namespace sluice::engine::jinja {

Runtime::~Runtime() {
  for (const NamespacePtr& one : namespaces_) one->attributes = Dict();
}

Value Runtime::Fail(std::string_view message) {
  if (ok()) error_ = InvalidArgument(message);
  return Value();
}

Value Runtime::Exhausted(std::string_view message) {
  if (ok()) error_ = ResourceExhausted(message);
  return Value();
}

bool Runtime::Charge(int64_t units) {
  if (!ok()) return false;
  work_ += units;
  if (work_ <= limits_.work_max) return true;
  Exhausted("rendering takes more than " + std::to_string(limits_.work_max) +
            " steps (template work limit)");
  return false;
}

bool Runtime::MayHold(size_t bytes) {
  if (bytes <= limits_.output_bytes_max) return ok();
  Exhausted("the output or a value is larger than " + std::to_string(limits_.output_bytes_max) +
            " bytes (template output limit)");
  return false;
}

Value Runtime::MakeText(std::string text, bool escaped) {
  if (!MayHold(text.size()) || !ChargeBytes(text.size())) return Value();
  auto string = std::make_shared<String>();
  string->length = CodePointCount(text);
  string->text = std::move(text);
  string->escaped = escaped;
  return Value(StringPtr(std::move(string)));
}

Value Runtime::MakeList(std::vector<Value> items, List::Kind kind) {
  if (!MayHold(items.size() * sizeof(Value)) || !Charge(static_cast<int64_t>(items.size()) + 1)) {
    return Value();
  }
  auto list = std::make_shared<List>();
  list->kind = kind;
  for (const Value& item : items) list->depth = std::max(list->depth, item.Depth() + 1);
  if (list->depth > kValueDepthMax) {
    return Exhausted("lists nest deeper than " + std::to_string(kValueDepthMax) + " levels");
  }
  list->items = std::move(items);
  return Value(ListPtr(std::move(list)));
}

Value Runtime::MakeGenerator(std::vector<Value> items) {
  std::string failure;
  if (error_.code() == absl::StatusCode::kInvalidArgument) {
    failure = Message(error_);
    error_ = absl::OkStatus();
  }
  Value value = MakeList(std::move(items), List::Kind::kIterator);
  if (failure.empty() || !ok()) return value;
  auto failing = std::make_shared<List>(*value.list());
  failing->failure = std::move(failure);
  return Value(ListPtr(std::move(failing)));
}

Value Runtime::MakeDict(Dict dict) {
  if (!MayHold(dict.size() * 2 * sizeof(Value)) || !Charge(static_cast<int64_t>(dict.size()) + 1)) {
    return Value();
  }
  if (dict.depth() > kValueDepthMax) {
    return Exhausted("dicts nest deeper than " + std::to_string(kValueDepthMax) + " levels");
  }
  return Value(DictPtr(std::make_shared<Dict>(std::move(dict))));
}

NamespacePtr Runtime::MakeNamespace() {
  Charge(1);
  namespaces_.push_back(std::make_shared<Namespace>());
  return namespaces_.back();
}

Value Runtime::MakeUndefined(std::string problem) {
  return Value(Undefined{std::make_shared<const std::string>(std::move(problem))});
}

}  // namespace sluice::engine::jinja
