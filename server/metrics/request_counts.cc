#include "server/metrics/request_counts.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace sluice::server {
namespace {

using SeriesLabels = std::map<std::string, std::string>;

constexpr char kRejected[] = "rejected";

constexpr const char* kErrorKinds[] = {"invalid_request", "unauthenticated", "not_found",
                                       "too_large",       "timeout",         kRejected,
                                       "cancelled",       "internal"};

// Those that exist from the first scrape on; others appear when they first happen.
constexpr const char* kUsualReasons[] = {"loading", "draining", "failed", "queue_full"};

// Null: no error.
const char* ErrorKindOfHttp(int status) {
  if (status < 400) return nullptr;
  switch (status) {
    case 401:
    case 403:
      return "unauthenticated";
    case 404:
    case 405:
      return "not_found";
    case 408:
    case 504:
      return "timeout";
    case 413:
    case 431:
      return "too_large";
    case 429:
    case 503:
      return kRejected;
    case 499:
      return "cancelled";
    default:
      return status < 500 ? "invalid_request" : "internal";
  }
}

// By code, as https://grpc.io/docs/guides/status-codes numbers them.
struct GrpcCode {
  const char* name;
  const char* kind;  // null: no error
};
constexpr GrpcCode kGrpcCodes[] = {
    {"OK", nullptr},
    {"CANCELLED", "cancelled"},
    {"UNKNOWN", "internal"},
    {"INVALID_ARGUMENT", "invalid_request"},
    {"DEADLINE_EXCEEDED", "timeout"},
    {"NOT_FOUND", "not_found"},
    {"ALREADY_EXISTS", "invalid_request"},
    {"PERMISSION_DENIED", "unauthenticated"},
    {"RESOURCE_EXHAUSTED", kRejected},
    {"FAILED_PRECONDITION", "invalid_request"},
    {"ABORTED", "cancelled"},
    {"OUT_OF_RANGE", "invalid_request"},
    {"UNIMPLEMENTED", "not_found"},
    {"INTERNAL", "internal"},
    {"UNAVAILABLE", kRejected},
    {"DATA_LOSS", "internal"},
    {"UNAUTHENTICATED", "unauthenticated"},
};
constexpr int kGrpcCodeCount = sizeof kGrpcCodes / sizeof kGrpcCodes[0];

// A word of ours: what is not one is no label.
std::string Word(std::string_view reason) {
  const bool sound = reason.size() <= 40 && std::all_of(reason.begin(), reason.end(), [](char c) {
                       return (c >= 'a' && c <= 'z') || c == '_';
                     });
  return sound ? std::string(reason) : "other";
}

}  // namespace

RequestCounts::Bounded::Bounded(prometheus::Registry* registry, const char* name, const char* help,
                                size_t series_max)
    : family_(prometheus::BuildCounter().Name(name).Help(help).Register(*registry)),
      series_max_(series_max) {}

void RequestCounts::Bounded::Count(const SeriesLabels& labels) { Find(labels)->Increment(); }

void RequestCounts::Bounded::Declare(const SeriesLabels& labels) { Find(labels); }

prometheus::Counter* RequestCounts::Bounded::Find(SeriesLabels labels) {
  std::lock_guard lock(mutex_);
  auto found = series_.find(labels);
  if (found == series_.end()) {
    if (series_.size() >= series_max_) {
      for (auto& [name, value] : labels) value = "other";
    }
    // Add gives the one that is there when the labels are "other" again.
    found = series_.emplace(labels, &family_.Add(labels)).first;
  }
  return found->second;
}

RequestCounts::RequestCounts(prometheus::Registry* registry)
    : http_(registry, "sluice_http_requests_total",
            "HTTP requests by route and status; 499: the client left.", 512),
      grpc_(registry, "sluice_grpc_requests_total", "gRPC calls by method and status code.", 512),
      errors_(registry, "sluice_request_errors_total",
              "Requests that did not get what they asked for, over all protocols.", 16),
      rejected_(registry, "sluice_requests_rejected_total",
                "Requests turned away because of load or of the server's state.", 32) {
  for (const char* kind : kErrorKinds) errors_.Declare({{"kind", kind}});
  for (const char* reason : kUsualReasons) rejected_.Declare({{"reason", reason}});
}

void RequestCounts::CountHttp(std::string_view route, int status, std::string_view reason) {
  http_.Count({{"path", std::string(route)}, {"status", std::to_string(status)}});
  if (const char* kind = ErrorKindOfHttp(status)) CountError(kind, reason);
}

void RequestCounts::CountGrpc(std::string_view method, int code, std::string_view reason) {
  const GrpcCode& known = kGrpcCodes[code >= 0 && code < kGrpcCodeCount ? code : 2];
  grpc_.Count({{"method", std::string(method)}, {"code", known.name}});
  if (known.kind != nullptr) CountError(known.kind, reason);
}

void RequestCounts::CountError(const char* kind, std::string_view reason) {
  const bool rejected = std::strcmp(kind, kRejected) == 0;
  if (rejected && reason.empty()) return;
  errors_.Count({{"kind", kind}});
  if (rejected) rejected_.Count({{"reason", Word(reason)}});
}

}  // namespace sluice::server
