#include <cmath>
#include <limits>

#include "engine/template/value/operations.h"
#include "engine/template/value/text.h"

namespace sluice::engine::jinja {
namespace {

const char* Symbol(Arithmetic op) {
  switch (op) {
    case Arithmetic::kAdd:
      return "+";
    case Arithmetic::kSub:
      return "-";
    case Arithmetic::kMul:
      return "*";
    case Arithmetic::kDiv:
      return "/";
    case Arithmetic::kFloorDiv:
      return "//";
    case Arithmetic::kMod:
      return "%";
    case Arithmetic::kPow:
      return "** or pow()";
  }
  return "?";
}

// Python's integers have no limit; ours are 64 bits and never wrap.
Value Overflow(Runtime& runtime, Arithmetic op) {
  return runtime.Fail(std::string("the integer result of ") + Symbol(op) + " does not fit 64 bits");
}

int64_t FloorDivide(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return quotient - (a % b != 0 && (a < 0) != (b < 0));
}

Value IntegerPower(Runtime& runtime, int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return runtime.Fail("0.0 cannot be raised to a negative power");
    return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  while (true) {
    if (exponent & 1 && __builtin_mul_overflow(result, base, &result)) {
      return Overflow(runtime, Arithmetic::kPow);
    }
    exponent >>= 1;
    if (exponent == 0) return Value(result);
    if (__builtin_mul_overflow(base, base, &base)) return Overflow(runtime, Arithmetic::kPow);
  }
}

Value CalculateIntegers(Runtime& runtime, Arithmetic op, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (op) {
    case Arithmetic::kAdd:
      return __builtin_add_overflow(a, b, &result) ? Overflow(runtime, op) : Value(result);
    case Arithmetic::kSub:
      return __builtin_sub_overflow(a, b, &result) ? Overflow(runtime, op) : Value(result);
    case Arithmetic::kMul:
      return __builtin_mul_overflow(a, b, &result) ? Overflow(runtime, op) : Value(result);
    case Arithmetic::kPow:
      return IntegerPower(runtime, a, b);
    case Arithmetic::kDiv:
      if (b == 0) return runtime.Fail("division by zero");
      // In 64 bits of precision, as neither integer need fit a double.
      return Value(static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b)));
    case Arithmetic::kFloorDiv:
    case Arithmetic::kMod:
      break;
  }
  if (b == 0) return runtime.Fail("integer division or modulo by zero");
  if (b == -1) {  // the one divisor whose quotient may overflow
    if (op == Arithmetic::kMod) return Value(int64_t{0});
    return __builtin_sub_overflow(int64_t{0}, a, &result) ? Overflow(runtime, op) : Value(result);
  }
  if (op == Arithmetic::kFloorDiv) return Value(FloorDivide(a, b));
  return Value(a - FloorDivide(a, b) * b);
}

// Quotient and remainder of Python's divmod on floats. Precondition: b != 0.
void FloatDivMod(double a, double b, double* quotient, double* remainder) {
  double mod = std::fmod(a, b);
  double div = (a - mod) / b;
  if (mod != 0) {
    if ((b < 0) != (mod < 0)) {
      mod += b;
      div -= 1.0;
    }
  } else {
    mod = std::copysign(0.0, b);
  }
  double whole = std::copysign(0.0, a / b);
  if (div != 0) {
    whole = std::floor(div);
    if (div - whole > 0.5) whole += 1.0;
  }
  *quotient = whole;
  *remainder = mod;
}

Value FloatPower(Runtime& runtime, double a, double b) {
  if (a == 0 && b < 0) return runtime.Fail("0.0 cannot be raised to a negative power");
  if (a < 0 && std::isfinite(a) && std::isfinite(b) && std::floor(b) != b) {
    return runtime.Fail("a negative number raised to a fraction is complex: not supported");
  }
  const double result = std::pow(a, b);
  if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) {
    return runtime.Fail("numerical result out of range");
  }
  return Value(result);
}

Value CalculateFloats(Runtime& runtime, Arithmetic op, double a, double b) {
  double quotient, remainder;
  switch (op) {
    case Arithmetic::kAdd:
      return Value(a + b);
    case Arithmetic::kSub:
      return Value(a - b);
    case Arithmetic::kMul:
      return Value(a * b);
    case Arithmetic::kPow:
      return FloatPower(runtime, a, b);
    case Arithmetic::kDiv:
      if (b == 0) return runtime.Fail("float division by zero");
      return Value(a / b);
    case Arithmetic::kFloorDiv:
    case Arithmetic::kMod:
      break;
  }
  if (b == 0) return runtime.Fail("float floor division or modulo by zero");
  FloatDivMod(a, b, &quotient, &remainder);
  return Value(op == Arithmetic::kMod ? remainder : quotient);
}

Value Concatenate(Runtime& runtime, const List& a, const List& b) {
  const size_t count = a.items.size() + b.items.size();
  if (!runtime.MayHold(count * sizeof(Value)) || !runtime.Charge(static_cast<int64_t>(count))) {
    return Value();
  }
  std::vector<Value> items = a.items;
  items.insert(items.end(), b.items.begin(), b.items.end());
  return runtime.MakeList(std::move(items), a.is_tuple() ? List::Kind::kTuple : List::Kind::kList);
}

// Strings and lists times a number. False when the operands are something else.
bool Repeat(Runtime& runtime, const Value& sequence, const Value& times, Value* out) {
  int64_t count;
  if (!times.ToInteger(&count)) return false;
  const auto fits = [&](size_t bytes) {
    size_t total;
    const bool overflow = __builtin_mul_overflow(bytes, static_cast<size_t>(count), &total);
    return runtime.MayHold(overflow ? std::numeric_limits<size_t>::max() : total);
  };
  count = std::max<int64_t>(count, 0);
  if (const String* text = sequence.string()) {
    if (text->text.empty()) count = 0;
    if (fits(text->text.size())) {
      std::string result;
      result.reserve(text->text.size() * static_cast<size_t>(count));
      for (int64_t i = 0; i < count; ++i) result += text->text;
      *out = runtime.MakeText(std::move(result));
    }
    return true;
  }
  const List* list = sequence.list();
  if (!list || !(list->kind == List::Kind::kList || list->is_tuple())) return false;
  if (list->items.empty()) count = 0;
  if (fits(list->items.size() * sizeof(Value))) {
    std::vector<Value> items;
    items.reserve(list->items.size() * static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      items.insert(items.end(), list->items.begin(), list->items.end());
    }
    *out = runtime.MakeList(std::move(items),
                            list->is_tuple() ? List::Kind::kTuple : List::Kind::kList);
  }
  return true;
}

Value FailOperands(Runtime& runtime, Arithmetic op, const Value& a, const Value& b) {
  if (op == Arithmetic::kAdd && a.string()) {
    return runtime.Fail("can only concatenate str (not \"" + b.TypeName() + "\") to str");
  }
  return runtime.Fail(std::string("unsupported operand type(s) for ") + Symbol(op) + ": '" +
                      a.TypeName() + "' and '" + b.TypeName() + "'");
}

// Text that is safe for HTML, joined to other text, has that escaped.
Value Join(Runtime& runtime, const String& a, const String& b) {
  const bool safe = a.escaped || b.escaped;
  if (!runtime.MayHold(a.text.size() + b.text.size())) return Value();
  if (!safe || (a.escaped && b.escaped)) return runtime.MakeText(a.text + b.text, safe);
  const std::string text =
      (a.escaped ? a.text : EscapeHtml(a.text)) + (b.escaped ? b.text : EscapeHtml(b.text));
  return runtime.MayHold(text.size()) ? runtime.MakeText(text, true) : Value();
}

}  // namespace

Value Calculate(Runtime& runtime, Arithmetic op, const Value& a, const Value& b) {
  if (op == Arithmetic::kMod && a.string()) return PercentFormat(runtime, a.string()->text, b);
  if (a.is_undefined() || b.is_undefined()) {
    return FailUndefined(runtime, a.is_undefined() ? a : b);
  }
  int64_t i, j;
  if (a.ToInteger(&i) && b.ToInteger(&j)) return CalculateIntegers(runtime, op, i, j);
  double x, y;
  if (a.ToDouble(&x) && b.ToDouble(&y)) return CalculateFloats(runtime, op, x, y);
  if (op == Arithmetic::kAdd) {
    if (a.string() && b.string()) return Join(runtime, *a.string(), *b.string());
    const List *l = a.list(), *m = b.list();
    const auto plain = [](const List* list) { return list && list->kind == List::Kind::kList; };
    if ((plain(l) && plain(m)) || (l && m && l->is_tuple() && m->is_tuple())) {
      return Concatenate(runtime, *l, *m);
    }
  }
  Value result;
  if (op == Arithmetic::kMul &&
      (Repeat(runtime, a, b, &result) || Repeat(runtime, b, a, &result))) {
    return result;
  }
  return FailOperands(runtime, op, a, b);
}

Value Negate(Runtime& runtime, const Value& value) {
  if (value.is_undefined()) return FailUndefined(runtime, value);
  int64_t i;
  if (value.ToInteger(&i)) return CalculateIntegers(runtime, Arithmetic::kSub, 0, i);
  if (const double* d = value.real()) return Value(-*d);
  return runtime.Fail("bad operand type for unary -: '" + value.TypeName() + "'");
}

Value Plus(Runtime& runtime, const Value& value) {
  if (value.is_undefined()) return FailUndefined(runtime, value);
  int64_t i;
  if (value.ToInteger(&i)) return Value(i);
  if (value.real()) return value;
  return runtime.Fail("bad operand type for unary +: '" + value.TypeName() + "'");
}

}  // namespace sluice::engine::jinja
