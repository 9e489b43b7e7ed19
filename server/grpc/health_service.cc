#include "server/grpc/health_service.h"

#include <algorithm>
#include <utility>

namespace sluice::server::rpc {

namespace health = ::grpc::health::v1;

// One watch: what it was told last, and one write under way at most. All state under the service's
// mutex. Deletes itself when gRPC is done with it.
class HealthService::Watcher final
    : public ::grpc::ServerWriteReactor<health::HealthCheckResponse> {
 public:
  Watcher(HealthService* service, bool known) : service_(service), known_(known) {
    std::lock_guard lock(service_->mutex_);
    service_->watchers_.insert(this);
    Pump();
  }

  // Tells what is new, or ends; under the mutex.
  void Pump() {
    if (writing_ || finished_) return;
    const Status now = known_ ? service_->Now() : health::HealthCheckResponse::SERVICE_UNKNOWN;
    if (!gone_ && (!told_ || response_.status() != now)) {
      told_ = true;
      writing_ = true;
      response_.set_status(now);
      StartWrite(&response_);
    } else if (gone_ || service_->ending_) {
      finished_ = true;
      Finish(gone_
                 ? ::grpc::Status::CANCELLED
                 : ::grpc::Status(::grpc::StatusCode::UNAVAILABLE, "the server is shutting down"));
    }
  }

  void OnWriteDone(bool ok) override {
    std::lock_guard lock(service_->mutex_);
    writing_ = false;
    if (!ok) gone_ = true;
    Pump();
  }
  void OnCancel() override {
    std::lock_guard lock(service_->mutex_);
    gone_ = true;
    Pump();
  }
  void OnDone() override {
    {
      std::lock_guard lock(service_->mutex_);
      service_->watchers_.erase(this);
    }
    delete this;
  }

 private:
  HealthService* const service_;
  const bool known_;
  health::HealthCheckResponse response_;
  bool told_ = false;
  bool writing_ = false;
  bool gone_ = false;
  bool finished_ = false;
};

HealthService::HealthService(std::vector<std::string> services) : services_(std::move(services)) {}

bool HealthService::Knows(const std::string& service) const {
  return service.empty() ||
         std::find(services_.begin(), services_.end(), service) != services_.end();
}

HealthService::Status HealthService::Now() const {
  return serving_ ? health::HealthCheckResponse::SERVING : health::HealthCheckResponse::NOT_SERVING;
}

void HealthService::SetServing(bool serving) {
  std::lock_guard lock(mutex_);
  serving_ = serving;
  for (Watcher* watcher : watchers_) watcher->Pump();
}

void HealthService::EndWatches() {
  std::lock_guard lock(mutex_);
  ending_ = true;
  for (Watcher* watcher : watchers_) watcher->Pump();
}

::grpc::ServerUnaryReactor* HealthService::Check(::grpc::CallbackServerContext* context,
                                                 const health::HealthCheckRequest* request,
                                                 health::HealthCheckResponse* response) {
  ::grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  if (Knows(request->service())) {
    std::lock_guard lock(mutex_);
    response->set_status(Now());
    reactor->Finish(::grpc::Status::OK);
  } else {
    reactor->Finish(::grpc::Status(::grpc::StatusCode::NOT_FOUND, "no service of that name"));
  }
  return reactor;
}

::grpc::ServerWriteReactor<health::HealthCheckResponse>* HealthService::Watch(
    ::grpc::CallbackServerContext*, const health::HealthCheckRequest* request) {
  return new Watcher(this, Knows(request->service()));
}

}  // namespace sluice::server::rpc
