#pragma once

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/registry.h>

#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace sluice::server {

// Calls by their outcome, over all protocols:
//   sluice_http_requests_total{path,status}   sluice_grpc_requests_total{method,code}
//   sluice_request_errors_total{kind}         the same kinds whatever the protocol
//   sluice_requests_rejected_total{reason}    turned away for load or state: 429, 503
// Thread-safe. Labels come from closed lists of ours, never from a caller's text; should one slip
// through, each family stops at a fixed number of series and counts the rest under "other".
class RequestCounts {
 public:
  explicit RequestCounts(prometheus::Registry* registry);

  // `route`: the route's path or "other". `status`: 499 when the client left first. `reason`: why
  // it was rejected, a word for programs such as "queue_full"; empty: not an API's refusal (a probe
  // that says "not ready" has 503, but nobody was rejected).
  void CountHttp(std::string_view route, int status, std::string_view reason);
  // `method`: "Service/Method" or "other". `code`: of gRPC's status, 0 to 16.
  void CountGrpc(std::string_view method, int code, std::string_view reason);

 private:
  // A family that does not grow beyond `series_max`.
  class Bounded {
   public:
    Bounded(prometheus::Registry* registry, const char* name, const char* help, size_t series_max);
    void Count(const std::map<std::string, std::string>& labels);
    void Declare(const std::map<std::string, std::string>& labels);

   private:
    prometheus::Counter* Find(std::map<std::string, std::string> labels);

    prometheus::Family<prometheus::Counter>& family_;
    const size_t series_max_;
    std::mutex mutex_;
    std::map<std::map<std::string, std::string>, prometheus::Counter*> series_;
  };

  void CountError(const char* kind, std::string_view reason);

  Bounded http_;
  Bounded grpc_;
  Bounded errors_;
  Bounded rejected_;
};

}  // namespace sluice::server
