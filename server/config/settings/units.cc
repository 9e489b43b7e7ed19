#include "server/config/settings/units.h"

#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "server/config/settings/text.h"

namespace sluice::server::config {
namespace {

using engine::InvalidArgument;

struct UnitName {
  std::string_view name;
  int64_t factor;
};

constexpr int64_t kKibi = 1024;
constexpr int64_t kKilo = 1000;

constexpr std::array<UnitName, 20> kSizes = {{
    {"", 1},
    {"B", 1},
    {"KiB", kKibi},
    {"MiB", kKibi* kKibi},
    {"GiB", kKibi* kKibi* kKibi},
    {"TiB", kKibi* kKibi* kKibi* kKibi},
    {"Ki", kKibi},
    {"Mi", kKibi* kKibi},
    {"Gi", kKibi* kKibi* kKibi},
    {"Ti", kKibi* kKibi* kKibi* kKibi},
    {"kB", kKilo},
    {"KB", kKilo},
    {"MB", kKilo* kKilo},
    {"GB", kKilo* kKilo* kKilo},
    {"TB", kKilo* kKilo* kKilo* kKilo},
    {"k", kKilo},
    {"K", kKilo},
    {"M", kKilo* kKilo},
    {"G", kKilo* kKilo* kKilo},
    {"T", kKilo* kKilo* kKilo* kKilo},
}};

constexpr std::array<UnitName, 6> kDurations = {{
    {"", 1000},
    {"ms", 1},
    {"s", 1000},
    {"m", 60'000},
    {"min", 60'000},
    {"h", 3'600'000},
}};

// "1.5 GiB" to 1.5 and "GiB"; none when the text does not begin with a number of digits, at most
// one point, and a sign.
std::optional<std::pair<std::string_view, std::string_view>> SplitUnit(std::string_view text) {
  size_t end = text.find_first_not_of("+-.0123456789");
  if (end == std::string_view::npos) end = text.size();
  std::string_view unit = text.substr(end);
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  if (end == 0) return std::nullopt;
  return std::pair(text.substr(0, end), unit);
}

// number * factor, when that is a whole number that an int64 holds.
template <size_t kUnits>
std::optional<int64_t> Scaled(std::string_view text, const std::array<UnitName, kUnits>& units) {
  const auto parts = SplitUnit(text);
  if (!parts) return std::nullopt;
  for (const UnitName& unit : units) {
    if (unit.name != parts->second) continue;
    int64_t product = 0;
    if (const auto whole = ParseInteger(parts->first); whole.ok()) {
      if (__builtin_mul_overflow(*whole, unit.factor, &product)) return std::nullopt;
      return product;
    }
    const auto number = ParseReal(parts->first);
    if (!number.ok()) return std::nullopt;
    // 2^53: up to there a double tells whole numbers apart.
    const double scaled = *number * static_cast<double>(unit.factor);
    const double rounded = std::round(scaled);
    if (std::abs(rounded) > 0x1p53 || std::abs(scaled - rounded) > 1e-6) return std::nullopt;
    return static_cast<int64_t>(rounded);
  }
  return std::nullopt;
}

std::string_view WithoutPlus(std::string_view text) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  return text;
}

}  // namespace

absl::StatusOr<int64_t> ParseInteger(std::string_view text) {
  const std::string_view digits = WithoutPlus(text);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc::result_out_of_range && end == digits.data() + digits.size()) {
    return InvalidArgument(Quoted(text) + " does not fit 64 bits");
  }
  if (error != std::errc() || end != digits.data() + digits.size()) {
    return InvalidArgument(Quoted(text) + " is not a whole number");
  }
  return value;
}

absl::StatusOr<double> ParseReal(std::string_view text) {
  const std::string_view digits = WithoutPlus(text);
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || !std::isfinite(value)) {
    return InvalidArgument(Quoted(text) + " is not a number");
  }
  return value;
}

std::string PrintReal(double value) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return std::string(text, end);
}

absl::StatusOr<int64_t> ParseBytes(std::string_view text) {
  if (const auto value = Scaled(text, kSizes)) return *value;
  return InvalidArgument(Quoted(text) +
                         " is not a size: write whole bytes, or a number with KiB, MiB, GiB, TiB, "
                         "kB, MB, GB or TB");
}

std::string PrintBytes(int64_t bytes) {
  constexpr std::array<std::string_view, 5> kNames = {"", "KiB", "MiB", "GiB", "TiB"};
  size_t power = 0;
  while (power + 1 < kNames.size() && bytes != 0 && bytes % kKibi == 0) {
    bytes /= kKibi;
    ++power;
  }
  return std::to_string(bytes) + std::string(kNames[power]);
}

absl::StatusOr<int64_t> ParseMilliseconds(std::string_view text) {
  if (const auto value = Scaled(text, kDurations)) return *value;
  return InvalidArgument(Quoted(text) +
                         " is not a duration of whole milliseconds: write seconds, or a number "
                         "with ms, s, m or h");
}

std::string PrintMilliseconds(int64_t milliseconds) {
  constexpr int64_t kSecond = 1000;
  constexpr int64_t kMinute = 60 * kSecond;
  constexpr int64_t kHour = 60 * kMinute;
  if (milliseconds == 0) return "0s";
  if (milliseconds % kHour == 0) return std::to_string(milliseconds / kHour) + "h";
  if (milliseconds % kMinute == 0 && milliseconds != kMinute) {
    return std::to_string(milliseconds / kMinute) + "m";
  }
  if (milliseconds % kSecond == 0) return std::to_string(milliseconds / kSecond) + "s";
  return std::to_string(milliseconds) + "ms";
}

}  // namespace sluice::server::config
