#include "server/front/front.h"

#include <thread>
#include <utility>

#include "server/admin/admin_key.h"
#include "server/admin/admin_routes.h"
#include "server/front/status_routes.h"

namespace sluice::server {

Front::Front(FrontOptions options, const ModelRegistry* registry, const Readiness* readiness)
    : options_(std::move(options)),
      registry_(registry),
      readiness_(readiness),
      metrics_(registry, options_.version, options_.metrics),
      pool_(std::make_unique<FrontendPool>(options_.frontend_threads, options_.frontend_queue)),
      in_flight_(std::make_shared<InFlight>(options_.in_flight)),
      openai_({registry, readiness, pool_.get(), in_flight_, options_.caps, options_.version}) {
  openai_.AddRoutes(&router_);
  AddStatusRoutes(&router_, readiness, &metrics_, pool_.get(), options_.version);
}

Front::~Front() { Stop(std::chrono::milliseconds(0)); }

absl::Status Front::Listen() {
  if (!options_.admin_key_file.empty()) {
    SLUICE_ASSIGN_OR_RETURN(std::string key, ReadAdminKey(options_.admin_key_file));
    AddAdminRoutes(&router_, registry_, pool_.get(), std::move(key));
  }
  SLUICE_ASSIGN_OR_RETURN(
      server_,
      HttpServer::Listen(options_.http, &router_,
                         [this](std::string_view route, int status, std::string_view code) {
                           metrics_.requests().CountHttp(route, status, code);
                         }));
  return options_.grpc.port < 0 ? absl::OkStatus() : ListenGrpc();
}

absl::Status Front::ListenGrpc() {
  rpc::GrpcOptions options = options_.grpc;
  if (options.host.empty()) options.host = options_.http.host;
  rpc::ServiceParts parts;
  parts.registry = registry_;
  parts.readiness = readiness_;
  parts.pool = pool_.get();
  parts.in_flight = in_flight_;
  parts.caps = options_.caps;
  parts.on_call = [this](std::string_view method, int code, std::string_view reason) {
    metrics_.requests().CountGrpc(method, code, reason);
  };
  SLUICE_ASSIGN_OR_RETURN(grpc_, rpc::GrpcServer::Listen(options, std::move(parts)));
  return absl::OkStatus();
}

void Front::StartClosing(std::chrono::milliseconds patience) {
  if (server_ != nullptr) server_->StopAccepting();
  // gRPC has no way to close its port and not to wait.
  if (grpc_ != nullptr) grpc_stop_ = std::thread([this, patience] { grpc_->Stop(patience); });
}

void Front::Stop(std::chrono::milliseconds patience) {
  // The servers first, both in the same time: no handler runs after them. Then the pool finishes
  // what it has.
  if (grpc_ != nullptr && !grpc_stop_.joinable()) {
    grpc_stop_ = std::thread([this, patience] { grpc_->Stop(patience); });
  }
  if (server_ != nullptr) server_->Stop(patience);
  if (grpc_stop_.joinable()) grpc_stop_.join();
  pool_->Wait();
}

}  // namespace sluice::server
