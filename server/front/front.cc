#include "server/front/front.h"

#include <utility>

#include "server/front/status_routes.h"

namespace sluice::server {

Front::Front(FrontOptions options, const ModelRegistry* registry, const Readiness* readiness)
    : options_(std::move(options)),
      metrics_(registry, options_.version),
      pool_(std::make_unique<FrontendPool>(options_.frontend_threads, options_.frontend_queue)),
      in_flight_(std::make_shared<InFlight>(options_.in_flight)),
      openai_({registry, readiness, pool_.get(), in_flight_, options_.caps, options_.version}) {
  openai_.AddRoutes(&router_);
  AddStatusRoutes(&router_, readiness, &metrics_, pool_.get(), options_.version);
}

Front::~Front() { Stop(std::chrono::milliseconds(0)); }

absl::Status Front::Listen() {
  SLUICE_ASSIGN_OR_RETURN(server_, HttpServer::Listen(options_.http, &router_,
                                                      [this](std::string_view route, int status) {
                                                        metrics_.CountRequest(route, status);
                                                      }));
  return absl::OkStatus();
}

void Front::Stop(std::chrono::milliseconds patience) {
  // The server first: no handler runs after it. Then the pool finishes what it has.
  if (server_ != nullptr) server_->Stop(patience);
  pool_->Wait();
}

}  // namespace sluice::server
