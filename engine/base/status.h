#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Abseil's Status with std::string_view at its edges: Debian builds Abseil with its own
// string_view, so own interfaces speak std types and convert here, in one place.
namespace sluice::engine {

inline absl::string_view ToAbsl(std::string_view s) {
  return absl::string_view(s.data(), s.size());
}
inline std::string_view ToStd(absl::string_view s) { return std::string_view(s.data(), s.size()); }

inline absl::Status InvalidArgument(std::string_view message) {
  return absl::InvalidArgumentError(ToAbsl(message));
}
inline absl::Status NotFound(std::string_view message) {
  return absl::NotFoundError(ToAbsl(message));
}
inline absl::Status OutOfRange(std::string_view message) {
  return absl::OutOfRangeError(ToAbsl(message));
}
inline absl::Status ResourceExhausted(std::string_view message) {
  return absl::ResourceExhaustedError(ToAbsl(message));
}
inline absl::Status Unavailable(std::string_view message) {
  return absl::UnavailableError(ToAbsl(message));
}
inline absl::Status Internal(std::string_view message) {
  return absl::InternalError(ToAbsl(message));
}
inline absl::Status Unimplemented(std::string_view message) {
  return absl::UnimplementedError(ToAbsl(message));
}
// A refusal that will be one no longer after so many seconds, and what it says; 0: it says nothing.
absl::Status WithRetryAfter(absl::Status status, int seconds);
int RetryAfterOf(const absl::Status& status);

inline std::string Message(const absl::Status& status) {
  return std::string(ToStd(status.message()));
}

}  // namespace sluice::engine

// Returns the status from the enclosing function when it is not OK.
#define SLUICE_RETURN_IF_ERROR(expr)                 \
  do {                                               \
    absl::Status sluice_status_ = (expr);            \
    if (!sluice_status_.ok()) return sluice_status_; \
  } while (false)

#define SLUICE_CONCAT_INNER(a, b) a##b
#define SLUICE_CONCAT(a, b) SLUICE_CONCAT_INNER(a, b)

// SLUICE_ASSIGN_OR_RETURN(auto value, StatusOrExpression): assigns, or returns the error.
#define SLUICE_ASSIGN_OR_RETURN(lhs, expr)               \
  auto SLUICE_CONCAT(sluice_or_, __LINE__) = (expr);     \
  if (!SLUICE_CONCAT(sluice_or_, __LINE__).ok())         \
    return SLUICE_CONCAT(sluice_or_, __LINE__).status(); \
  lhs = std::move(SLUICE_CONCAT(sluice_or_, __LINE__)).value()
