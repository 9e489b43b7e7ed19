#pragma once

#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "grpc/health/v1/health.grpc.pb.h"

namespace sluice::server::rpc {

// The standard health service, for the server as a whole ("") and the services named. Not gRPC's
// own, which says SERVING from the port's opening until it is told otherwise, and whose watches
// hold up the server's end. Thread-safe.
class HealthService final : public ::grpc::health::v1::Health::CallbackService {
 public:
  // Nothing is served at first.
  explicit HealthService(std::vector<std::string> services);

  void SetServing(bool serving);
  // Ends all watches, and new ones at once. They learn the last status before.
  void EndWatches();

  ::grpc::ServerUnaryReactor* Check(::grpc::CallbackServerContext* context,
                                    const ::grpc::health::v1::HealthCheckRequest* request,
                                    ::grpc::health::v1::HealthCheckResponse* response) override;
  ::grpc::ServerWriteReactor<::grpc::health::v1::HealthCheckResponse>* Watch(
      ::grpc::CallbackServerContext* context,
      const ::grpc::health::v1::HealthCheckRequest* request) override;

 private:
  class Watcher;
  using Status = ::grpc::health::v1::HealthCheckResponse::ServingStatus;
  bool Knows(const std::string& service) const;
  Status Now() const;  // under the mutex

  const std::vector<std::string> services_;
  std::mutex mutex_;
  bool serving_ = false;
  bool ending_ = false;
  std::set<Watcher*> watchers_;
};

}  // namespace sluice::server::rpc
