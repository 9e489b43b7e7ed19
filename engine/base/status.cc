#include "engine/base/status.h"

#include <charconv>
#include <optional>

#include "absl/strings/cord.h"

namespace sluice::engine {
namespace {

constexpr char kRetryAfter[] = "sluice/retry-after";

}  // namespace

absl::Status WithRetryAfter(absl::Status status, int seconds) {
  status.SetPayload(kRetryAfter, absl::Cord(std::to_string(seconds)));
  return status;
}

int RetryAfterOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kRetryAfter);
  if (!payload.has_value()) return 0;
  const std::string text(*payload);
  int seconds = 0;
  std::from_chars(text.data(), text.data() + text.size(), seconds);
  return seconds;
}

}  // namespace sluice::engine
