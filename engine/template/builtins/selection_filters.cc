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

Value MapAttribute(Runtime& runtime, const std::vector<Value>& items, const Arguments& arguments) {
  Parameters parameters(runtime, "map", arguments, {"attribute", "default"}, 1);
  if (!parameters.ok()) return runtime.MakeGenerator({});
  AttributeGetter getter(runtime, parameters[0]);
  getter.set_default(parameters[1] && !parameters[1]->is_none() ? parameters[1] : nullptr);
  std::vector<Value> mapped;
  for (const Value& item : items) {
    Value value = getter.Get(item);
    if (!runtime.ok()) break;
    mapped.push_back(std::move(value));
  }
  return runtime.MakeGenerator(std::move(mapped));
}

Value Map(Runtime& runtime, const Value& input, Arguments& arguments) {
  std::vector<Value> items, mapped;
  if (!Truth(input) || !Iterate(runtime, input, &items)) return runtime.MakeGenerator({});
  if (arguments.positional.empty()) return MapAttribute(runtime, items, arguments);
  const String* name = arguments.positional[0].string();
  const Filter filter = name ? FindFilter(name->text) : nullptr;
  if (!filter) {
    runtime.Fail("map: no filter named '" + (name ? name->text : "?") + "'");
    return runtime.MakeGenerator({});
  }
  arguments.positional.erase(arguments.positional.begin());
  for (const Value& item : items) {
    if (!runtime.Charge(1)) break;
    Arguments copy = arguments;
    Value value = filter(runtime, item, copy);
    if (!runtime.ok()) break;
    mapped.push_back(std::move(value));
  }
  return runtime.MakeGenerator(std::move(mapped));
}

// What select and reject keep by: an attribute, or the item, and a test, or its truth.
struct Choice {
  Value attribute = None{};
  Test test = nullptr;
};

// Takes the choice from the front of the arguments; false after a failure.
bool TakeChoice(Runtime& runtime, bool by_attribute, Arguments* arguments, Choice* choice) {
  auto& positional = arguments->positional;
  if (by_attribute) {
    if (positional.empty()) {
      runtime.Fail("missing parameter for attribute name");
      return false;
    }
    choice->attribute = positional[0];
    positional.erase(positional.begin());
  }
  if (positional.empty()) return true;
  const String* name = positional[0].string();
  choice->test = name ? FindTest(name->text) : nullptr;
  if (!choice->test) runtime.Fail("no test named '" + (name ? name->text : "?") + "'");
  positional.erase(positional.begin());
  return choice->test != nullptr;
}

// Keeps the items for which the choice that the arguments state comes out as `wanted`.
Value Choose(Runtime& runtime, const Value& input, Arguments arguments, bool by_attribute,
             bool wanted) {
  std::vector<Value> items, kept;
  Choice choice;
  if (!Truth(input) || !Iterate(runtime, input, &items) ||
      !TakeChoice(runtime, by_attribute, &arguments, &choice)) {
    return runtime.MakeGenerator({});
  }
  const AttributeGetter getter(runtime, &choice.attribute);
  for (const Value& item : items) {
    if (!runtime.Charge(1)) break;
    const Value tested = getter.Get(item);
    Arguments copy = arguments;
    const bool passes = choice.test ? choice.test(runtime, tested, copy) : Truth(tested);
    if (runtime.ok() && passes == wanted) kept.push_back(item);
  }
  return runtime.MakeGenerator(std::move(kept));
}

template <bool by_attribute, bool wanted>
Value ChooseFilter(Runtime& runtime, const Value& input, Arguments& arguments) {
  return Choose(runtime, input, arguments, by_attribute, wanted);
}

Value Attr(Runtime& runtime, const Value& input, Arguments& arguments) {
  Parameters parameters(runtime, "attr", arguments, {"name"}, 1);
  const std::string name = parameters.ok() ? parameters.Text(0, "") : "";
  return parameters.ok() ? GetOwnAttribute(runtime, input, name) : Value();
}

constexpr std::array<std::pair<std::string_view, Filter>, 6> kFilters = {{
    {"attr", Attr},
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
