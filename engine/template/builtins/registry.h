#pragma once

#include <string_view>

#include "engine/template/value/runtime.h"

// What templates find by name: filters, tests, global functions, and the methods of values.
namespace sluice::engine::jinja {

using Filter = Value (*)(Runtime& runtime, const Value& input, Arguments& arguments);
using Test = bool (*)(Runtime& runtime, const Value& input, Arguments& arguments);
using Method = Value (*)(Runtime& runtime, const Value& self, Arguments& arguments);

// nullptr when there is none of that name.
Filter FindFilter(std::string_view name);
Test FindTest(std::string_view name);

// A function such as range or raise_exception; undefined when there is none of that name.
Value FindFunction(std::string_view name);

// value.name and value[key] as the sandbox resolves them: attributes (methods) and items, in the
// order that fits the form, and undefined when neither is there.
Value GetAttribute(Runtime& runtime, const Value& value, std::string_view name);
Value GetItem(Runtime& runtime, const Value& value, const Value& key);
// The attribute alone, as the filter attr finds it: never an item.
Value GetOwnAttribute(Runtime& runtime, const Value& value, std::string_view name);

// value.name(arguments) without making the method a value; false when the name is not a method of
// the value.
bool CallMethod(Runtime& runtime, const Value& value, std::string_view name, Arguments& arguments,
                Value* result);

// The tables behind the above, one for each file; nullptr when there is none of that name.
Filter FindTextFilter(std::string_view name);
Filter FindSequenceFilter(std::string_view name);
Filter FindSelectionFilter(std::string_view name);
Filter FindNumberFilter(std::string_view name);
Method FindStringMethod(std::string_view name);
Method FindContainerMethod(const Value& value, std::string_view name);

}  // namespace sluice::engine::jinja
