#include <array>

#include "engine/template/builtins/parameters.h"
#include "engine/template/builtins/registry.h"
#include "engine/template/value/operations.h"

// The methods of Python's list, tuple and dict that leave them unchanged.
namespace sluice::engine::jinja {
namespace {

Value Entries(Runtime& runtime, const Value& self, List::Kind kind) {
  const Dict& dict = *self.dict();
  if (!runtime.Charge(static_cast<int64_t>(dict.size()))) return Value();
  std::vector<Value> items;
  items.reserve(dict.size());
  for (const auto& [key, value] : dict.entries()) {
    if (kind == List::Kind::kItems) {
      items.push_back(runtime.MakeList({key, value}, List::Kind::kTuple));
    } else {
      items.push_back(kind == List::Kind::kKeys ? key : value);
    }
  }
  return runtime.MakeList(std::move(items), kind);
}

template <List::Kind kind>
Value EntriesMethod(Runtime& runtime, const Value& self, Arguments& arguments) {
  return Parameters(runtime, "dict method", arguments, {}).ok() ? Entries(runtime, self, kind)
                                                                : Value();
}

Value Get(Runtime& runtime, const Value& self, Arguments& arguments) {
  Parameters parameters(runtime, "get", arguments, {"key", "default"}, 1);
  if (!parameters.ok()) return Value();
  if (!Hashable(*parameters[0])) {
    return FailUnhashable(runtime, *parameters[0]);
  }
  if (const Value* found = self.dict()->Find(*parameters[0])) return *found;
  return parameters[1] ? *parameters[1] : Value(None{});
}

Value Copy(Runtime& runtime, const Value& self, Arguments& arguments) {
  return Parameters(runtime, "copy", arguments, {}).ok() ? self : Value();
}

Value ListCount(Runtime& runtime, const Value& self, Arguments& arguments) {
  Parameters parameters(runtime, "count", arguments, {"value"}, 1);
  if (!parameters.ok()) return Value();
  int64_t count = 0;
  for (const Value& item : self.list()->items) {
    if (!runtime.ok()) return Value();
    count += Equal(runtime, item, *parameters[0]);
  }
  return Value(count);
}

Value ListIndex(Runtime& runtime, const Value& self, Arguments& arguments) {
  Parameters parameters(runtime, "index", arguments, {"value", "start", "stop"}, 1);
  if (!parameters.ok()) return Value();
  const auto length = static_cast<int64_t>(self.list()->items.size());
  int64_t start = parameters.Integer(1, 0), stop = parameters.Integer(2, length);
  if (!parameters.ok()) return Value();
  start = start < 0 ? std::max<int64_t>(start + length, 0) : start;
  stop = stop < 0 ? stop + length : std::min(stop, length);
  for (int64_t i = start; i < stop && runtime.ok(); ++i) {
    if (Equal(runtime, self.list()->items[static_cast<size_t>(i)], *parameters[0])) return Value(i);
  }
  return runtime.Fail("the value is not in the list");
}

constexpr std::array<std::pair<std::string_view, Method>, 5> kDictMethods = {{
    {"items", EntriesMethod<List::Kind::kItems>},
    {"keys", EntriesMethod<List::Kind::kKeys>},
    {"values", EntriesMethod<List::Kind::kValues>},
    {"get", Get},
    {"copy", Copy},
}};

constexpr std::array<std::pair<std::string_view, Method>, 3> kListMethods = {{
    {"count", ListCount},
    {"index", ListIndex},
    {"copy", Copy},
}};

template <typename Table>
Method FindIn(const Table& table, std::string_view name) {
  for (const auto& [key, method] : table) {
    if (key == name) return method;
  }
  return nullptr;
}

}  // namespace

Method FindContainerMethod(const Value& value, std::string_view name) {
  if (value.dict()) return FindIn(kDictMethods, name);
  const List* list = value.list();
  if (!list || !list->is_sequence()) return nullptr;
  if (name == "copy" && list->kind != List::Kind::kList) return nullptr;
  return FindIn(kListMethods, name);
}

}  // namespace sluice::engine::jinja
