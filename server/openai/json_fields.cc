#include "server/openai/json_fields.h"

#include <boost/json/memory_resource.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/storage_ptr.hpp>
#include <boost/json/stream_parser.hpp>
#include <charconv>
#include <cmath>
#include <limits>
#include <new>

namespace sluice::server::openai {
namespace {

namespace json = boost::json;

ApiError BadJson(std::string message) {
  ApiError error;
  error.message = std::move(message);
  error.code = "invalid_json";
  return error;
}

// Memory up to a limit, beyond which allocation fails as if there were no more.
class LimitedMemory final : public json::memory_resource {
 public:
  explicit LimitedMemory(size_t bytes_max) : left_(bytes_max) {}

 private:
  // Never aligned to more than what operator new gives.
  void* do_allocate(size_t bytes, size_t) override {
    if (bytes > left_) throw std::bad_alloc();
    void* const memory = ::operator new(bytes);
    left_ -= bytes;
    return memory;
  }
  void do_deallocate(void* memory, size_t bytes, size_t) override {
    left_ += bytes;
    ::operator delete(memory);
  }
  bool do_is_equal(const json::memory_resource& other) const noexcept override {
    return this == &other;
  }

  size_t left_;
};

std::variant<json::object, ApiError> Parse(std::string_view body, const JsonLimits& limits) {
  json::parse_options options;
  options.max_depth = limits.depth;
  const json::storage_ptr memory = json::make_shared_resource<LimitedMemory>(limits.memory);
  json::stream_parser parser(memory, options);
  parser.reset(memory);
  boost::system::error_code error;
  const size_t used = parser.write_some(body.data(), body.size(), error);
  if (error == json::error::too_deep) {
    return BadJson("the body's JSON is nested deeper than " + std::to_string(limits.depth) +
                   " levels");
  }
  if (error) {
    return BadJson("the body is not valid JSON: " + error.message() + " at byte " +
                   std::to_string(used));
  }
  if (body.find_first_not_of(" \t\r\n", used) != std::string_view::npos) {
    return BadJson("the body is not valid JSON: text after its end at byte " +
                   std::to_string(used));
  }
  parser.finish(error);
  if (error) {
    return BadJson("the body is not valid JSON: it ends unfinished at byte " +
                   std::to_string(body.size()));
  }
  json::value value = parser.release();
  if (!value.is_object()) return BadJson("the body must be a JSON object, not " + Show(value));
  return std::move(value.get_object());
}

}  // namespace

std::variant<json::object, ApiError> ParseBody(std::string_view body, const JsonLimits& limits) {
  try {
    return Parse(body, limits);
  } catch (const std::bad_alloc&) {
    return ApiError{413,
                    "the body's JSON of " + std::to_string(body.size()) +
                        " bytes takes more than " + std::to_string(limits.memory) +
                        " bytes of memory when read",
                    "", "json_too_large"};
  }
}

std::string Show(const json::value& value) {
  if (value.is_object()) return "an object";
  if (const auto* array = value.if_array()) {
    return "a list of " + std::to_string(array->size());
  }
  if (const auto* text = value.if_string()) return "\"" + Clip(View(*text)) + "\"";
  if (const auto* number = value.if_double()) {
    char digits[40];
    return {digits, std::to_chars(digits, digits + sizeof digits, *number).ptr};
  }
  return Clip(json::serialize(value));
}

std::optional<int64_t> WholeNumber(const json::value& value) {
  if (const auto* number = value.if_int64()) return *number;
  if (const auto* number = value.if_double()) {
    // Both bounds are exact as doubles.
    if (std::trunc(*number) == *number && *number >= -0x1p63 && *number < 0x1p63) {
      return static_cast<int64_t>(*number);
    }
  }
  return std::nullopt;
}

const json::value* FieldReader::Get(std::string_view name) const {
  if (!ok()) return nullptr;
  const json::value* value = object_.if_contains(json::string_view(name.data(), name.size()));
  return value == nullptr || value->is_null() ? nullptr : value;
}

bool FieldReader::Has(std::string_view name) const {
  return object_.contains(json::string_view(name.data(), name.size()));
}

void FieldReader::Fail(std::string_view name, std::string_view what, std::string_view code,
                       int status) const {
  if (!ok()) return;
  ApiError error;
  error.status = status;
  error.param = Name(name);
  error.message = error.param + ": " + std::string(what);
  error.code = code;
  *error_ = std::move(error);
}

void FieldReader::FailType(std::string_view name, std::string_view wanted,
                           const json::value& value) const {
  Fail(name, "must be " + std::string(wanted) + ", not " + Show(value), "invalid_type");
}

void FieldReader::Bool(std::string_view name, bool* out) const {
  const json::value* value = Get(name);
  if (value == nullptr) return;
  if (!value->is_bool()) return FailType(name, "true or false", *value);
  *out = value->get_bool();
}

void FieldReader::Bool(std::string_view name, std::optional<bool>* out) const {
  if (Get(name) == nullptr) return;
  bool flag = false;
  Bool(name, &flag);
  *out = flag;
}

void FieldReader::Int(std::string_view name, int64_t low, int64_t high, int32_t* out) const {
  const json::value* value = Get(name);
  if (value == nullptr) return;
  if (!value->is_number()) return FailType(name, "a whole number", *value);
  const std::optional<int64_t> number = WholeNumber(*value);
  if (!number && value->is_double() && std::abs(value->get_double()) < 0x1p63) {
    return FailType(name, "a whole number", *value);
  }
  if (!number || *number < low || *number > high) {
    return Fail(name, Show(*value) + " is not in [" + std::to_string(low) + ", " +
                          std::to_string(high) + "]");
  }
  *out = static_cast<int32_t>(*number);
}

void FieldReader::Float(std::string_view name, float* out) const {
  const json::value* value = Get(name);
  if (value == nullptr) return;
  if (!value->is_number()) return FailType(name, "a number", *value);
  const double number = value->is_double()  ? value->get_double()
                        : value->is_int64() ? static_cast<double>(value->get_int64())
                                            : static_cast<double>(value->get_uint64());
  if (!(std::abs(number) <= static_cast<double>(std::numeric_limits<float>::max()))) {
    return Fail(name, Show(*value) + " is larger than a 32-bit number can be");
  }
  *out = static_cast<float>(number);
}

void FieldReader::String(std::string_view name, std::string* out) const {
  const json::value* value = Get(name);
  if (value == nullptr) return;
  if (!value->is_string()) return FailType(name, "a string", *value);
  *out = std::string(View(value->get_string()));
}

const json::object* FieldReader::Object(std::string_view name) const {
  const json::value* value = Get(name);
  if (value != nullptr && !value->is_object()) FailType(name, "an object", *value);
  return value == nullptr ? nullptr : value->if_object();
}

const json::array* FieldReader::Array(std::string_view name) const {
  const json::value* value = Get(name);
  if (value != nullptr && !value->is_array()) FailType(name, "a list", *value);
  return value == nullptr ? nullptr : value->if_array();
}

}  // namespace sluice::server::openai
