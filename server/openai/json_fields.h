#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "server/openai/api_error.h"

namespace sluice::server::openai {

// What one body may ask of the parser.
struct JsonLimits {
  size_t depth = 64;  // levels; more: 400
  size_t memory =
      64 << 20;  // bytes of the values it becomes, many times those of the text; more: 413
};

// A request body as a JSON object, strict by RFC 8259 (no comments, NaN, byte order mark or
// trailing text; UTF-8 and surrogates checked; of members with the same name the last counts).
// Errors say at which byte.
std::variant<boost::json::object, ApiError> ParseBody(std::string_view body,
                                                      const JsonLimits& limits = {});

// A value in an error message: "abc" as "\"abc\"", cut where it is long.
std::string Show(const boost::json::value& value);

// Reads known fields of one object. The first error sticks and later reads do nothing, so a caller
// reads all fields and then looks once. Absent and null fields leave the output as it is. The name
// of a field in errors is prefix + name.
class FieldReader {
 public:
  FieldReader(const boost::json::object& object, std::string prefix, std::optional<ApiError>* error)
      : object_(object), prefix_(std::move(prefix)), error_(error) {}

  bool ok() const { return !error_->has_value(); }
  // Null when absent or null, or after an error.
  const boost::json::value* Get(std::string_view name) const;

  // Present, be it as null.
  bool Has(std::string_view name) const;

  void Bool(std::string_view name, bool* out) const;
  void Bool(std::string_view name, std::optional<bool>* out) const;
  // A whole number in [low, high]. 5.0 is one.
  void Int(std::string_view name, int64_t low, int64_t high, int32_t* out) const;
  // Finite as a 32-bit float.
  void Float(std::string_view name, float* out) const;
  void String(std::string_view name, std::string* out) const;
  const boost::json::object* Object(std::string_view name) const;
  const boost::json::array* Array(std::string_view name) const;

  void Fail(std::string_view name, std::string_view what, std::string_view code = "invalid_value",
            int status = 400) const;
  void FailType(std::string_view name, std::string_view wanted,
                const boost::json::value& value) const;
  std::string Name(std::string_view name) const { return prefix_ + std::string(name); }

 private:
  const boost::json::object& object_;
  const std::string prefix_;
  std::optional<ApiError>* const error_;
};

// The value as a whole number, if it is one in the range of int64_t.
std::optional<int64_t> WholeNumber(const boost::json::value& value);

inline std::string_view View(const boost::json::string& text) { return {text.data(), text.size()}; }
inline std::string_view View(boost::json::string_view text) { return {text.data(), text.size()}; }

}  // namespace sluice::server::openai
