#pragma once

#include <memory>
#include <string>
#include <thread>

#include "server/admission/in_flight.h"
#include "server/base/frontend_pool.h"
#include "server/grpc/grpc_server.h"
#include "server/http/http_server.h"
#include "server/metrics/metrics.h"
#include "server/models/model_registry.h"
#include "server/models/readiness.h"
#include "server/openai/service.h"

namespace sluice::server {

struct FrontOptions {
  HttpServerOptions http;
  rpc::GrpcOptions grpc;
  openai::RequestCaps caps;
  InFlightLimits in_flight;
  Metrics::Options metrics;
  int frontend_threads = 2;
  int frontend_queue = 1024;   // requests that wait to be read; more: 429
  std::string admin_key_file;  // empty: nothing answers at /admin
  std::string version;
};

// All that faces clients, put together in the order in which it must live: registry and readiness
// (the caller's), metrics, pool, services, servers. Ends before the engines do.
class Front {
 public:
  Front(FrontOptions options, const ModelRegistry* registry, const Readiness* readiness);
  ~Front();
  Front(const Front&) = delete;
  Front& operator=(const Front&) = delete;

  // Opens the ports.
  absl::Status Listen();
  uint16_t port() const { return server_->port(); }
  uint16_t grpc_port() const { return grpc_ == nullptr ? 0 : grpc_->port(); }  // 0: none
  int connections() const { return server_->connections(); }
  Metrics* metrics() { return &metrics_; }
  InFlight& in_flight() { return *in_flight_; }

  // Closes the ports and idle connections; calls under way go on. Does not wait. `patience`: for
  // gRPC's calls. Once, before Stop.
  void StartClosing(std::chrono::milliseconds patience);
  // Closes the ports, lets answers under way go out for at most `patience`, then ends everything
  // that could call an engine.
  void Stop(std::chrono::milliseconds patience);

 private:
  absl::Status ListenGrpc();

  const FrontOptions options_;
  const ModelRegistry* const registry_;
  const Readiness* const readiness_;
  Metrics metrics_;
  std::unique_ptr<FrontendPool> pool_;
  const std::shared_ptr<InFlight> in_flight_;
  openai::Service openai_;
  Router router_;
  std::unique_ptr<HttpServer> server_;
  std::unique_ptr<rpc::GrpcServer> grpc_;  // null: none is wished
  std::thread grpc_stop_;
};

}  // namespace sluice::server
