#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/template/value/runtime.h"

// Python's operators on values. Each spends work, fails with Python's complaint where Python
// raises, and then returns something unspecified.
namespace sluice::engine::jinja {

bool Truth(const Value& value);

bool Equal(Runtime& runtime, const Value& a, const Value& b);
// a < b.
bool Less(Runtime& runtime, const Value& a, const Value& b);
enum class Comparison { kEq, kNe, kLt, kLe, kGt, kGe, kIn, kNotIn };
bool Compare(Runtime& runtime, Comparison op, const Value& a, const Value& b);
// `item in container`.
bool Contains(Runtime& runtime, const Value& container, const Value& item);

enum class Arithmetic { kAdd, kSub, kMul, kDiv, kFloorDiv, kMod, kPow };
Value Calculate(Runtime& runtime, Arithmetic op, const Value& a, const Value& b);
Value Negate(Runtime& runtime, const Value& value);
Value Plus(Runtime& runtime, const Value& value);

// len(value); nullopt when it has none (numbers, generators).
std::optional<int64_t> Length(const Value& value);

// The items that a for loop would see: of a list, a dict's keys, a string's characters. Uses up a
// generator. Fails, and returns false, for what can't be iterated.
bool Iterate(Runtime& runtime, const Value& value, std::vector<Value>* items);

bool IsIterable(const Value& value);

// value[start:stop:step]; absent bounds are None.
struct SliceBounds {
  Value start = None{}, stop = None{}, step = None{};
};
Value GetSlice(Runtime& runtime, const Value& value, const SliceBounds& bounds);

// Fails with what is wrong about using an undefined value.
Value FailUndefined(Runtime& runtime, const Value& value);

// Fails with Python's complaint about a dict key of such a type.
Value FailUnhashable(Runtime& runtime, const Value& key);

// Python's % on strings.
Value PercentFormat(Runtime& runtime, std::string_view format, const Value& arguments);

}  // namespace sluice::engine::jinja
