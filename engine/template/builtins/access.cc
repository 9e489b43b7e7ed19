#include <algorithm>
#include <array>

#include "engine/template/builtins/registry.h"
#include "engine/template/value/operations.h"
#include "engine/template/value/print.h"

namespace sluice::engine::jinja {
namespace {

Method FindMethod(const Value& value, std::string_view name) {
  return value.string() ? FindStringMethod(name) : FindContainerMethod(value, name);
}

// A method taken from its value without a call.
class BoundMethod : public Callable {
 public:
  BoundMethod(Value self, Method method, std::string_view name)
      : self_(std::move(self)), method_(method), name_(name) {
    depth = self_.Depth() + 1;
  }
  Value Call(Runtime& runtime, Arguments& arguments) const override {
    return method_(runtime, self_, arguments);
  }
  std::string TypeName() const override { return "builtin_function_or_method"; }
  std::string Name() const override { return name_; }

 private:
  Value self_;
  Method method_;
  std::string name_;
};

// The methods by which Python's lists and dicts change; the immutable sandbox keeps them away.
bool ChangesValue(const Value& value, std::string_view name) {
  static constexpr std::array<std::string_view, 8> kList = {"append", "clear", "pop",    "reverse",
                                                            "insert", "sort",  "extend", "remove"};
  static constexpr std::array<std::string_view, 5> kDict = {"clear", "pop", "popitem", "setdefault",
                                                            "update"};
  const List* list = value.list();
  if (list && list->kind == List::Kind::kList) {
    return std::find(kList.begin(), kList.end(), name) != kList.end();
  }
  return value.dict() && std::find(kDict.begin(), kDict.end(), name) != kDict.end();
}

std::string DescribeObject(const Value& value) {
  return value.is_none() ? "None" : value.TypeName() + " object";
}

// What Python's getattr finds; false when it finds nothing.
bool FindAttribute(Runtime& runtime, const Value& value, std::string_view name, Value* out) {
  if (ChangesValue(value, name)) {
    *out = Runtime::MakeUndefined("access to attribute '" + std::string(name) + "' of '" +
                                  value.TypeName() + "' object is unsafe.");
    return true;
  }
  if (Namespace* ns = value.name_space()) {
    const Value* found = ns->attributes.Find(name);
    if (found) *out = *found;
    return found != nullptr;
  }
  if (Loop* loop = value.loop()) {
    *out = loop->Attribute(runtime, name);
    return true;
  }
  const List* list = value.list();
  if (list && list->kind == List::Kind::kGroup && (name == "grouper" || name == "list")) {
    *out = list->items[name == "grouper" ? 0 : 1];
    return true;
  }
  const Callable* callable = value.callable();
  if (callable && callable->Attribute(runtime, name, out)) return true;
  const Method method = FindMethod(value, name);
  if (!method) return false;
  auto bound = std::make_shared<BoundMethod>(value, method, name);
  if (bound->depth > kValueDepthMax) {
    *out =
        runtime.Exhausted("values nest deeper than " + std::to_string(kValueDepthMax) + " levels");
  } else {
    *out = Value(CallablePtr(std::move(bound)));
  }
  return true;
}

Value NoElement(Runtime& runtime, const Value& value, const Value& key) {
  if (const String* name = key.string()) {
    return Runtime::MakeUndefined("'" + DescribeObject(value) + "' has no attribute '" +
                                  name->text + "'");
  }
  std::string shown;
  AppendRepr(runtime, key, &shown);
  return Runtime::MakeUndefined(DescribeObject(value) + " has no element " + shown);
}

// An index of a sequence of `length`, counted from the end when negative.
bool ToIndex(const Value& key, int64_t length, int64_t* index) {
  if (!key.ToInteger(index)) return false;
  if (*index < 0) *index += length;
  return *index >= 0 && *index < length;
}

// What Python's subscript finds; false when it finds nothing.
bool FindItem(Runtime& runtime, const Value& value, const Value& key, Value* out) {
  int64_t index;
  if (const Dict* dict = value.dict()) {
    const Value* found = dict->Find(key);
    if (found) *out = *found;
    return found != nullptr;
  }
  if (const List* list = value.list()) {
    if (!list->is_sequence() || !ToIndex(key, static_cast<int64_t>(list->items.size()), &index)) {
      return false;
    }
    *out = list->items[static_cast<size_t>(index)];
    return true;
  }
  const String* text = value.string();
  if (!text || !ToIndex(key, text->length, &index)) return false;
  SliceBounds bounds;
  bounds.start = Value(index);
  bounds.stop = Value(index + 1);
  *out = GetSlice(runtime, value, bounds);
  return true;
}

}  // namespace

Value GetAttribute(Runtime& runtime, const Value& value, std::string_view name) {
  if (value.is_undefined()) return FailUndefined(runtime, value);
  Value result;
  if (FindAttribute(runtime, value, name, &result)) return result;
  if (const Dict* dict = value.dict()) {
    if (const Value* found = dict->Find(name)) return *found;
  }
  return Runtime::MakeUndefined("'" + DescribeObject(value) + "' has no attribute '" +
                                std::string(name) + "'");
}

Value GetOwnAttribute(Runtime& runtime, const Value& value, std::string_view name) {
  if (value.is_undefined()) return FailUndefined(runtime, value);
  Value result;
  if (FindAttribute(runtime, value, name, &result)) return result;
  return Runtime::MakeUndefined("'" + DescribeObject(value) + "' has no attribute '" +
                                std::string(name) + "'");
}

Value GetItem(Runtime& runtime, const Value& value, const Value& key) {
  if (value.is_undefined()) return FailUndefined(runtime, value);
  Value result;
  if (FindItem(runtime, value, key, &result)) return result;
  const String* name = key.string();
  if (name && FindAttribute(runtime, value, name->text, &result)) return result;
  return NoElement(runtime, value, key);
}

bool CallMethod(Runtime& runtime, const Value& value, std::string_view name, Arguments& arguments,
                Value* result) {
  const Method method = ChangesValue(value, name) ? nullptr : FindMethod(value, name);
  if (!method) return false;
  *result = method(runtime, value, arguments);
  return true;
}

}  // namespace sluice::engine::jinja
