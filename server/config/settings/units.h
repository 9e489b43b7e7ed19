#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/status.h"

// Numbers with units, as people write them. Errors are sentences without the place ("12q is not a
// size ...").
namespace sluice::server::config {

// A whole number of decimal digits with an optional sign.
absl::StatusOr<int64_t> ParseInteger(std::string_view text);
// A finite decimal number.
absl::StatusOr<double> ParseReal(std::string_view text);
// The shortest text that ParseReal reads back as the same number.
std::string PrintReal(double value);

// Bytes: "4096", "64KiB", "1.5 GiB", "2Gi" (powers of 1024), "8MB", "8M" (powers of 1000).
absl::StatusOr<int64_t> ParseBytes(std::string_view text);
// The greatest power of 1024 that divides it: "64KiB", "5000000000".
std::string PrintBytes(int64_t bytes);

// To milliseconds: "500ms", "30s", "5m" or "5min", "1h"; a number alone is seconds: "0.5".
absl::StatusOr<int64_t> ParseMilliseconds(std::string_view text);
std::string PrintMilliseconds(int64_t milliseconds);

}  // namespace sluice::server::config
