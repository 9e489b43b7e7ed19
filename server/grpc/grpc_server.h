#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "engine/base/status.h"
#include "server/grpc/generate_call.h"
#include "server/grpc/options.h"

namespace sluice::server::rpc {

// The gRPC port: generation, health (which follows the readiness) and reflection. gRPC brings its
// own threads.
class GrpcServer {
 public:
  // Opens the port. `parts` outlive the server; its backlog is taken from `options`. Unavailable
  // when the address can't be had.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Listen(const GrpcOptions& options,
                                                            ServiceParts parts);
  ~GrpcServer();  // Stop(0)
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  uint16_t port() const;

  // Closes the port, lets calls under way end for at most `patience`, then cancels them; no call is
  // under way when it returns. The frontend pool must still run. Idempotent, one thread.
  void Stop(std::chrono::milliseconds patience);

 private:
  struct Impl;
  explicit GrpcServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::server::rpc
