#include "server/config/settings/setting.h"

#include <algorithm>

#include "server/config/settings/text.h"
#include "server/config/settings/units.h"

namespace sluice::server::config {
namespace {

using engine::InvalidArgument;

std::string Listed(const std::vector<std::string>& words, const char* between = ", ") {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : between) + word;
  return all;
}

absl::StatusOr<Value> ParseBool(std::string_view text) {
  if (text == "true") return Value(true);
  if (text == "false") return Value(false);
  return InvalidArgument(Quoted(text) + " is not true or false");
}

absl::StatusOr<Value> ParseText(const Setting& setting, std::string_view text) {
  SLUICE_RETURN_IF_ERROR(CheckText(text));
  if (!setting.allowed.empty() &&
      std::ranges::find(setting.allowed, text) == setting.allowed.end()) {
    return InvalidArgument(Quoted(text) + " is not one of " + Listed(setting.allowed));
  }
  return Value(std::string(text));
}

absl::StatusOr<Value> ParseList(const Setting& setting, std::string_view text) {
  std::vector<std::string> items;
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    std::string_view item = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    while (item.starts_with(' ')) item.remove_prefix(1);
    while (item.ends_with(' ')) item.remove_suffix(1);
    if (item.empty()) continue;
    SLUICE_ASSIGN_OR_RETURN(Value checked, ParseText(setting, item));
    items.push_back(std::get<std::string>(std::move(checked)));
  }
  return Value(std::move(items));
}

template <class T>
absl::StatusOr<Value> ToValue(absl::StatusOr<T> parsed) {
  if (!parsed.ok()) return parsed.status();
  return Value(*std::move(parsed));
}

absl::StatusOr<Value> ParseByKind(const Setting& setting, std::string_view text) {
  switch (setting.kind) {
    case Kind::kBool:
      return ParseBool(text);
    case Kind::kInteger:
      return ToValue(ParseInteger(text));
    case Kind::kReal:
      return ToValue(ParseReal(text));
    case Kind::kBytes:
      return ToValue(ParseBytes(text));
    case Kind::kMilliseconds:
      return ToValue(ParseMilliseconds(text));
    case Kind::kList:
      return ParseList(setting, text);
    case Kind::kText:
      break;
  }
  return ParseText(setting, text);
}

absl::Status CheckLimits(const Setting& setting, const Value& value) {
  const bool low = setting.min && value < *setting.min;
  const bool high = setting.max && *setting.max < value;
  if (low || high) {
    const auto end = [&](const std::optional<Value>& limit) {
      return limit ? PrintValue(setting, *limit) : std::string("...");
    };
    return InvalidArgument(PrintValue(setting, value) + " is not in [" + end(setting.min) + ", " +
                           end(setting.max) + "]");
  }
  const auto* whole = std::get_if<int64_t>(&value);
  if (setting.multiple_of > 0 && whole != nullptr && *whole % setting.multiple_of != 0) {
    return InvalidArgument(PrintValue(setting, value) + " is not a multiple of " +
                           std::to_string(setting.multiple_of));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Value> ParseValue(const Setting& setting, std::string_view text) {
  absl::StatusOr<Value> value = ParseByKind(setting, text);
  absl::Status status = value.ok() ? CheckLimits(setting, *value) : value.status();
  if (status.ok()) return value;
  if (!setting.secret) return status;
  const std::string range = DescribeRange(setting);
  return InvalidArgument("the value, a secret, is not valid" +
                         (range.empty() ? "" : " (" + range + ")"));
}

std::string PrintValue(const Setting& setting, const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* truth = std::get_if<bool>(&value)) return *truth ? "true" : "false";
  if (const auto* real = std::get_if<double>(&value)) return PrintReal(*real);
  if (const auto* list = std::get_if<std::vector<std::string>>(&value)) return Listed(*list, ",");
  const int64_t whole = std::get<int64_t>(value);
  if (setting.kind == Kind::kBytes) return PrintBytes(whole);
  if (setting.kind == Kind::kMilliseconds) return PrintMilliseconds(whole);
  return std::to_string(whole);
}

std::string PrintYaml(const Setting& setting, const Value& value) {
  if (const auto* list = std::get_if<std::vector<std::string>>(&value)) {
    std::string items;
    for (const std::string& item : *list) items += (items.empty() ? "" : ", ") + YamlScalar(item);
    return "[" + items + "]";
  }
  const std::string text = PrintValue(setting, value);
  return setting.kind == Kind::kText ? YamlScalar(text) : text;
}

std::string DescribeRange(const Setting& setting) {
  if (!setting.allowed.empty()) return "one of " + Listed(setting.allowed);
  std::string range;
  if (setting.min && setting.max) {
    range = PrintValue(setting, *setting.min) + " to " + PrintValue(setting, *setting.max);
  } else if (setting.min) {
    range = "at least " + PrintValue(setting, *setting.min);
  } else if (setting.max) {
    range = "at most " + PrintValue(setting, *setting.max);
  }
  if (setting.multiple_of > 0) range += ", a multiple of " + std::to_string(setting.multiple_of);
  if (!setting.at_least.empty()) range += ", at least " + setting.at_least;
  return range;
}

}  // namespace sluice::server::config
