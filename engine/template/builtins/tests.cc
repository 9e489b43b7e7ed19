#include <array>

#include "engine/template/builtins/parameters.h"
#include "engine/template/builtins/registry.h"
#include "engine/template/value/operations.h"
#include "engine/template/value/print.h"
#include "engine/template/value/text.h"

// What stands after `is`.
namespace sluice::engine::jinja {
namespace {

// A test without arguments.
template <bool (*Predicate)(const Value&)>
bool Simple(Runtime& runtime, const Value& input, Arguments& arguments) {
  return Parameters(runtime, "test", arguments, {}).ok() && Predicate(input);
}

bool IsDefined(const Value& value) { return !value.is_undefined(); }
bool IsUndefined(const Value& value) { return value.is_undefined(); }
bool IsNone(const Value& value) { return value.is_none(); }
bool IsString(const Value& value) { return value.string() != nullptr; }
bool IsNumber(const Value& value) { return value.is_number(); }
bool IsInteger(const Value& value) { return value.As<int64_t>() != nullptr; }
bool IsFloat(const Value& value) { return value.real() != nullptr; }
bool IsBoolean(const Value& value) { return value.boolean() != nullptr; }
bool IsTrue(const Value& value) { return value.boolean() && *value.boolean(); }
bool IsFalse(const Value& value) { return value.boolean() && !*value.boolean(); }
bool IsMapping(const Value& value) { return value.dict() != nullptr; }

bool IsSequence(const Value& value) {
  const List* list = value.list();
  return value.is_undefined() || value.string() || value.dict() || (list && list->is_sequence());
}

bool IsIterableOrLoop(const Value& value) { return IsIterable(value) || value.loop(); }

// Jinja2's undefined has a __call__, which only raises: it counts.
bool IsCallable(const Value& value) {
  return value.is_undefined() || value.callable() || value.loop();
}

bool IsEscaped(const Value& value) { return value.string() && value.string()->escaped; }

bool FilterExists(const Value& value) { return value.string() && FindFilter(value.string()->text); }
bool TestExists(const Value& value) { return value.string() && FindTest(value.string()->text); }

template <bool upper>
bool IsCase(Runtime& runtime, const Value& input, Arguments& arguments) {
  if (!Parameters(runtime, "test", arguments, {}).ok()) return false;
  const Value text = runtime.MakeText(ToStr(runtime, input));
  Arguments none;
  return runtime.ok() &&
         Truth(FindStringMethod(upper ? "isupper" : "islower")(runtime, text, none));
}

// value % divisor == remainder.
bool HasRemainder(Runtime& runtime, const Value& value, const Value& divisor, int64_t remainder) {
  const Value rest = Calculate(runtime, Arithmetic::kMod, value, divisor);
  return runtime.ok() && Equal(runtime, rest, Value(remainder));
}

template <int64_t remainder>
bool Parity(Runtime& runtime, const Value& input, Arguments& arguments) {
  return Parameters(runtime, "test", arguments, {}).ok() &&
         HasRemainder(runtime, input, Value(int64_t{2}), remainder);
}

bool DivisibleBy(Runtime& runtime, const Value& input, Arguments& arguments) {
  Parameters parameters(runtime, "divisibleby", arguments, {"num"}, 1);
  return parameters.ok() && HasRemainder(runtime, input, *parameters[0], 0);
}

bool SameAs(Runtime& runtime, const Value& input, Arguments& arguments) {
  Parameters parameters(runtime, "sameas", arguments, {"other"}, 1);
  return parameters.ok() && input.SameAs(*parameters[0]);
}

template <Comparison comparison>
bool Compares(Runtime& runtime, const Value& input, Arguments& arguments) {
  Parameters parameters(runtime, "test", arguments, {"other"}, 1);
  return parameters.ok() && Compare(runtime, comparison, input, *parameters[0]);
}

constexpr std::array<std::pair<std::string_view, Test>, 39> kTests = {{
    {"defined", Simple<IsDefined>},
    {"undefined", Simple<IsUndefined>},
    {"none", Simple<IsNone>},
    {"string", Simple<IsString>},
    {"number", Simple<IsNumber>},
    {"integer", Simple<IsInteger>},
    {"float", Simple<IsFloat>},
    {"boolean", Simple<IsBoolean>},
    {"true", Simple<IsTrue>},
    {"false", Simple<IsFalse>},
    {"mapping", Simple<IsMapping>},
    {"sequence", Simple<IsSequence>},
    {"iterable", Simple<IsIterableOrLoop>},
    {"callable", Simple<IsCallable>},
    {"escaped", Simple<IsEscaped>},
    {"filter", Simple<FilterExists>},
    {"test", Simple<TestExists>},
    {"upper", IsCase<true>},
    {"lower", IsCase<false>},
    {"odd", Parity<1>},
    {"even", Parity<0>},
    {"divisibleby", DivisibleBy},
    {"sameas", SameAs},
    {"in", Compares<Comparison::kIn>},
    {"eq", Compares<Comparison::kEq>},
    {"equalto", Compares<Comparison::kEq>},
    {"==", Compares<Comparison::kEq>},
    {"ne", Compares<Comparison::kNe>},
    {"!=", Compares<Comparison::kNe>},
    {"lt", Compares<Comparison::kLt>},
    {"lessthan", Compares<Comparison::kLt>},
    {"<", Compares<Comparison::kLt>},
    {"le", Compares<Comparison::kLe>},
    {"<=", Compares<Comparison::kLe>},
    {"gt", Compares<Comparison::kGt>},
    {"greaterthan", Compares<Comparison::kGt>},
    {">", Compares<Comparison::kGt>},
    {"ge", Compares<Comparison::kGe>},
    {">=", Compares<Comparison::kGe>},
}};

}  // namespace

Test FindTest(std::string_view name) {
  for (const auto& [key, test] : kTests) {
    if (key == name) return test;
  }
  return nullptr;
}

}  // namespace sluice::engine::jinja
