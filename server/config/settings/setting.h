#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/base/status.h"

namespace sluice::server::config {

enum class Kind { kBool, kInteger, kReal, kText, kBytes, kMilliseconds, kList };

// By kind: bool; int64_t for kInteger, kBytes and kMilliseconds; double; std::string; for kList
// texts that are not empty and have no commas, which part them when written on one line.
using Value = std::variant<bool, int64_t, double, std::string, std::vector<std::string>>;

// One thing that can be set: what a field of the configuration message says about itself.
struct Setting {
  std::string path;      // "http.port"
  std::string flag;      // "http-port"; empty: `--set http.port=VALUE` alone
  char letter = 0;       // of a short flag; 0: none
  std::string variable;  // "SLUICE_HTTP_PORT"
  Kind kind = Kind::kText;
  Value fallback;  // the default
  std::optional<Value> min;
  std::optional<Value> max;
  std::vector<std::string> allowed;  // of kText and kList; empty: any
  int64_t multiple_of = 0;           // of whole numbers; 0: any
  std::string at_least;              // path of a setting that this one may not be below
  std::string value_name;            // for --help, as "FILE"
  std::string help;
  bool required = false;  // serving needs a value
  bool secret = false;    // never printed
};

// The value that `text` stands for, within type, range and words. InvalidArgument otherwise: a
// sentence that names value and limit, without the place ("70000 is not in [0, 65535]").
absl::StatusOr<Value> ParseValue(const Setting& setting, std::string_view text);

// What ParseValue reads back as the same value. A secret is printed too: that is the caller's care.
std::string PrintValue(const Setting& setting, const Value& value);

// As PrintValue, as YAML scalar.
std::string PrintYaml(const Setting& setting, const Value& value);

// What may be set, for people: "0 to 65535", "one of int8, f32"; empty when anything may.
std::string DescribeRange(const Setting& setting);

}  // namespace sluice::server::config
