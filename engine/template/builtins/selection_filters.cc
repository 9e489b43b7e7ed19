#include <array>

#include "engine/template/builtins/attribute_getter.h"
#include "engine/template/builtins/parameters.h"
#include "engine/template/builtins/registry.h"
#include "engine/template/value/operations.h"

// map, select, reject and their attribute forms. In Python these are lazy; here they run at once
// and give an iterator, which differs only when the input could still change or an error would
// never be reached.
namespace sluice::engine::jinja {
namespace {

Value Map(Runtime& runtime, const Value& input, Arguments& arguments) {
  std::vector<Value> items;
  if (Truth(input) && !IsIterable(input)) return FailingIterator(input);
  if (Truth(input) && !Iterate(runtime, input, &items)) return Value();
  if (arguments.positional.empty()) {
    if (items.empty()) return runtime.MakeList({}, List::Kind::kIterator);
    Parameters parameters(runtime, "map", arguments, {"attribute", "default"}, 1);
    if (!parameters.ok()) return Value();
    AttributeGetter getter(runtime, parameters[0]);
    getter.set_default(parameters[1] && !parameters[1]->is_none() ? parameters[1] : nullptr);
    for (Value& item : items) {
      if (!runtime.ok()) return Value();
      item = getter.Get(item);
    }
    return runtime.MakeList(std::move(items), List::Kind::kIterator);
  }
  const String* name = arguments.positional[0].string();
  const Filter filter = name ? FindFilter(name->text) : nullptr;
  if (!filter && items.empty()) return runtime.MakeList({}, List::Kind::kIterator);
  if (!filter) return runtime.Fail("map: no filter named '" + (name ? name->text : "?") + "'");
  arguments.positional.erase(arguments.positional.begin());
  for (Value& item : items) {
    if (!runtime.Charge(1)) return Value();
    Arguments copy = arguments;
    item = filter(runtime, item, copy);
  }
  return runtime.MakeList(std::move(items), List::Kind::kIterator);
}

// Keeps the items, or those whose attribute, satisfy the test that the arguments name (truth,
// without one) as `wanted` says.
Value Choose(Runtime& runtime, const Value& input, Arguments arguments, bool by_attribute,
             bool wanted) {
  std::vector<Value> items, kept;
  if (Truth(input) && !IsIterable(input)) return FailingIterator(input);
  if (Truth(input) && !Iterate(runtime, input, &items)) return Value();
  if (items.empty()) return runtime.MakeList({}, List::Kind::kIterator);
  Value attribute = None{};
  if (by_attribute) {
    if (arguments.positional.empty()) return runtime.Fail("missing parameter for attribute name");
    attribute = arguments.positional[0];
    arguments.positional.erase(arguments.positional.begin());
  }
  const AttributeGetter getter(runtime, &attribute);
  Test test = nullptr;
  if (!arguments.positional.empty()) {
    const String* name = arguments.positional[0].string();
    test = name ? FindTest(name->text) : nullptr;
    if (!test) return runtime.Fail("no test named '" + (name ? name->text : "?") + "'");
    arguments.positional.erase(arguments.positional.begin());
  }
  for (const Value& item : items) {
    if (!runtime.Charge(1)) return Value();
    const Value tested = getter.Get(item);
    Arguments copy = arguments;
    const bool passes = test ? test(runtime, tested, copy) : Truth(tested);
    if (passes == wanted) kept.push_back(item);
  }
  return runtime.MakeList(std::move(kept), List::Kind::kIterator);
}

template <bool by_attribute, bool wanted>
Value ChooseFilter(Runtime& runtime, const Value& input, Arguments& arguments) {
  return Choose(runtime, input, arguments, by_attribute, wanted);
}

constexpr std::array<std::pair<std::string_view, Filter>, 5> kFilters = {{
    {"map", Map},
    {"select", ChooseFilter<false, true>},
    {"reject", ChooseFilter<false, false>},
    {"selectattr", ChooseFilter<true, true>},
    {"rejectattr", ChooseFilter<true, false>},
}};

}  // namespace

Filter FindSelectionFilter(std::string_view name) {
  for (const auto& [key, filter] : kFilters) {
    if (key == name) return filter;
  }
  return nullptr;
}

}  // namespace sluice::engine::jinja
