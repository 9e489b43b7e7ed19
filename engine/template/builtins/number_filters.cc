#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <optional>

#include "engine/template/builtins/parameters.h"
#include "engine/template/builtins/registry.h"
#include "engine/template/value/operations.h"
#include "engine/template/value/text.h"

// Filters to and on numbers, and default.
namespace sluice::engine::jinja {
namespace {

Value Default(Runtime& runtime, const Value& input, Arguments& arguments) {
  Parameters parameters(runtime, "default", arguments, {"default_value", "boolean"});
  if (!parameters.ok()) return Value();
  if (input.is_undefined() || (parameters.Flag(1, false) && !Truth(input))) {
    return parameters[0] ? *parameters[0] : Value::Text("");
  }
  return input;
}

// Digits with single underscores between them removed; nullopt for misplaced ones.
std::optional<std::string> WithoutUnderscores(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
      continue;
    }
    const auto alnum = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
    if (i == 0 || i + 1 == text.size() || !alnum(text[i - 1]) || !alnum(text[i + 1])) {
      return std::nullopt;
    }
  }
  return out;
}

// Python's float(text).
std::optional<double> ParseFloat(std::string_view text) {
  const std::optional<std::string> digits =
      WithoutUnderscores(Strip(text, nullptr, StripSides::kBoth));
  if (!digits || digits->empty()) return std::nullopt;
  const std::string lower = ToLower(*digits);
  const std::string_view unsigned_text =
      std::string_view(lower).substr(lower[0] == '+' || lower[0] == '-' ? 1 : 0);
  const bool word = unsigned_text == "inf" || unsigned_text == "infinity" || unsigned_text == "nan";
  if (!word && lower.find_first_not_of("0123456789.e+-") != std::string::npos) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(lower.c_str(), &end);
  if (end != lower.c_str() + lower.size()) return std::nullopt;
  return value;
}

// Python's int(text, base), within 64 bits.
std::optional<int64_t> ParseInteger(std::string_view text, int64_t base) {
  const std::optional<std::string> digits =
      WithoutUnderscores(Strip(text, nullptr, StripSides::kBoth));
  if (!digits) return std::nullopt;
  std::string_view rest = *digits;
  const bool negative = !rest.empty() && rest[0] == '-';
  if (!rest.empty() && (rest[0] == '-' || rest[0] == '+')) rest.remove_prefix(1);
  const char marker = base == 2 ? 'b' : base == 8 ? 'o' : base == 16 ? 'x' : 0;
  if (marker && rest.size() > 2 && rest[0] == '0' && (rest[1] | 0x20) == marker) {
    rest.remove_prefix(2);
  }
  if (rest.empty() || rest[0] == '-') return std::nullopt;
  const std::string signed_text = (negative ? "-" : "") + std::string(rest);
  int64_t value = 0;
  const auto result = std::from_chars(signed_text.data(), signed_text.data() + signed_text.size(),
                                      value, static_cast<int>(base));
  if (result.ec != std::errc() || result.ptr != signed_text.data() + signed_text.size()) {
    return std::nullopt;
  }
  return value;
}

std::optional<int64_t> Truncated(double value) {
  if (!(std::abs(value) < 9.2e18)) return std::nullopt;
  return static_cast<int64_t>(value);
}

Value IntFilter(Runtime& runtime, const Value& input, Arguments& arguments) {
  Parameters parameters(runtime, "int", arguments, {"default", "base"});
  const int64_t base = parameters.ok() ? parameters.Integer(1, 10) : 10;
  if (!parameters.ok()) return Value();
  if (base < 2 || base > 36) return runtime.Fail("int: the base must be from 2 to 36");
  if (input.is_undefined()) return FailUndefined(runtime, input);
  std::optional<int64_t> result;
  int64_t integer;
  if (const String* text = input.string()) {
    result = ParseInteger(text->text, base);
    if (!result) {
      const std::optional<double> real = ParseFloat(text->text);
      if (real) result = Truncated(*real);
    }
  } else if (input.ToInteger(&integer)) {
    result = integer;
  } else if (const double* real = input.real()) {
    result = Truncated(*real);
  }
  if (result) return Value(*result);
  return parameters[0] ? *parameters[0] : Value(int64_t{0});
}

Value FloatFilter(Runtime& runtime, const Value& input, Arguments& arguments) {
  Parameters parameters(runtime, "float", arguments, {"default"});
  if (!parameters.ok()) return Value();
  if (input.is_undefined()) return FailUndefined(runtime, input);
  double value;
  if (input.ToDouble(&value)) return Value(value);
  if (const String* text = input.string()) {
    if (const std::optional<double> parsed = ParseFloat(text->text)) return Value(*parsed);
  }
  return parameters[0] ? *parameters[0] : Value(0.0);
}

Value Abs(Runtime& runtime, const Value& input, Arguments& arguments) {
  if (!Parameters(runtime, "abs", arguments, {}).ok()) return Value();
  int64_t integer;
  if (input.ToInteger(&integer)) {
    return integer < 0 ? Negate(runtime, Value(integer)) : Value(integer);
  }
  if (const double* real = input.real()) return Value(std::abs(*real));
  if (input.is_undefined()) return FailUndefined(runtime, input);
  return runtime.Fail("bad operand type for abs(): '" + input.TypeName() + "'");
}

// Half to even at `precision` decimal places, correctly: through the exact decimal digits.
double RoundCommon(double value, int64_t precision) {
  if (!std::isfinite(value) || precision > 300) return value;
  if (precision < -308) return std::copysign(0.0, value);
  if (precision < 0) {
    const double unit = std::pow(10.0, static_cast<double>(-precision));
    return std::nearbyint(value / unit) * unit;
  }
  char buffer[700];
  std::snprintf(buffer, sizeof(buffer), "%.*f", static_cast<int>(precision), value);
  return std::strtod(buffer, nullptr);
}

// An integer to a multiple of a power of ten, half to even.
Value RoundInteger(Runtime& runtime, int64_t value, int64_t precision) {
  if (precision >= 0) return Value(value);
  if (precision < -18) return Value(int64_t{0});
  int64_t unit = 1;
  for (int64_t i = 0; i < -precision; ++i) unit *= 10;
  int64_t rest = value % unit;
  if (rest < 0) rest += unit;
  const int64_t half = unit / 2;
  const int64_t floor = value - rest;
  const bool up = rest > half || (rest == half && (floor / unit) % 2 != 0);
  return up ? Calculate(runtime, Arithmetic::kAdd, Value(floor), Value(unit)) : Value(floor);
}

Value Round(Runtime& runtime, const Value& input, Arguments& arguments) {
  Parameters parameters(runtime, "round", arguments, {"precision", "method"});
  if (!parameters.ok()) return Value();
  const int64_t precision = parameters.Integer(0, 0);
  const std::string method = parameters.Text(1, "common");
  if (!parameters.ok()) return Value();
  if (method != "common" && method != "ceil" && method != "floor") {
    return runtime.Fail("round: method must be common, ceil or floor");
  }
  if (input.is_undefined()) return FailUndefined(runtime, input);
  double value;
  int64_t integer;
  if (!input.ToDouble(&value)) {
    return runtime.Fail("type " + input.TypeName() + " doesn't define __round__ method");
  }
  if (method == "common") {
    if (input.ToInteger(&integer)) return RoundInteger(runtime, integer, precision);
    return Value(RoundCommon(value, precision));
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = value * scale;
  if (!std::isfinite(scaled)) return runtime.Fail("round: the number is too large");
  return Value((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

constexpr std::array<std::pair<std::string_view, Filter>, 6> kFilters = {{
    {"default", Default},
    {"d", Default},
    {"int", IntFilter},
    {"float", FloatFilter},
    {"abs", Abs},
    {"round", Round},
}};

}  // namespace

Filter FindNumberFilter(std::string_view name) {
  for (const auto& [key, filter] : kFilters) {
    if (key == name) return filter;
  }
  return nullptr;
}

}  // namespace sluice::engine::jinja
