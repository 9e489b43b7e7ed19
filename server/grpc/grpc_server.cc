#include "server/grpc/grpc_server.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/server_builder.h>

#include <utility>

#include "engine/base/log.h"
#include "server/grpc/generation_service.h"
#include "server/grpc/health_service.h"

namespace sluice::server::rpc {
namespace {

// The libraries' own messages go where ours go, with their limit on repeats: a client can have
// Protobuf say something for each text of its that is not UTF-8.
void LogFromProtobuf(google::protobuf::LogLevel level, const char*, int,
                     const std::string& message) {
  if (level == google::protobuf::LOGLEVEL_FATAL) {
    SLUICE_LOG(kError) << "protobuf: " << message;
  } else {
    SLUICE_LOG(kDebug) << "protobuf: " << message;
  }
}

void LogFromGrpc(gpr_log_func_args* line) {
  switch (line->severity) {
    case GPR_LOG_SEVERITY_ERROR:
      SLUICE_LOG(kWarning) << "grpc: " << line->message;
      break;
    default:
      SLUICE_LOG(kDebug) << "grpc: " << line->message;
  }
}

int Milliseconds(std::chrono::milliseconds time) { return static_cast<int>(time.count()); }

void SetLimits(const GrpcOptions& options, grpc::ServerBuilder* builder) {
  builder->SetMaxReceiveMessageSize(options.message_bytes_max);
  const auto set = [builder](const char* name, int value) {
    builder->AddChannelArgument(name, value);
  };
  // Else a second server on the same port would take half of the connections instead of failing.
  set(GRPC_ARG_ALLOW_REUSEPORT, 0);
  set(GRPC_ARG_MAX_METADATA_SIZE, options.metadata_bytes_max);
  set(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.streams_max);
  set(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, Milliseconds(options.handshake_timeout));
  set(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(options.keepalive_time));
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Milliseconds(options.keepalive_timeout));
  set(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  set(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
      Milliseconds(options.client_ping_interval_min));
  if (options.connection_age_max.count() > 0) {
    set(GRPC_ARG_MAX_CONNECTION_AGE_MS, Milliseconds(options.connection_age_max));
    set(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, Milliseconds(options.connection_age_grace));
  }
}

std::string Address(const GrpcOptions& options) {
  const bool ipv6 = options.host.find(':') != std::string::npos;
  return (ipv6 ? "[" + options.host + "]" : options.host) + ":" + std::to_string(options.port);
}

}  // namespace

struct GrpcServer::Impl {
  explicit Impl(ServiceParts parts)
      : readiness(parts.readiness),
        health({wire::GenerationService::service_full_name()}),
        generation(std::move(parts)) {}

  const Readiness* const readiness;
  HealthService health;
  GenerationService generation;
  int port = 0;
  bool stopped = false;
  std::unique_ptr<grpc::Server> server;  // ends before what it calls
};

GrpcServer::GrpcServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

GrpcServer::~GrpcServer() { Stop(std::chrono::milliseconds(0)); }

uint16_t GrpcServer::port() const { return static_cast<uint16_t>(impl_->port); }

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Listen(const GrpcOptions& options,
                                                               ServiceParts parts) {
  gpr_set_log_function(LogFromGrpc);
  google::protobuf::SetLogHandler(LogFromProtobuf);
  parts.backlog_bytes = options.backlog_bytes;
  parts.message_bytes_max = static_cast<size_t>(options.message_bytes_max);
  auto impl = std::make_unique<Impl>(std::move(parts));
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  SetLimits(options, &builder);
  builder.AddListeningPort(Address(options), grpc::InsecureServerCredentials(), &impl->port);
  builder.RegisterService(&impl->generation);
  builder.RegisterService(&impl->health);
  impl->server = builder.BuildAndStart();
  if (impl->server == nullptr || impl->port == 0) {
    return engine::Unavailable("gRPC can't listen on " + Address(options) +
                               " (is the port taken?)");
  }
  GrpcOptions bound = options;
  bound.port = impl->port;
  SLUICE_LOG(kInfo) << "gRPC: " << Address(bound);
  impl->readiness->Watch([health = &impl->health](Readiness::State state) {
    health->SetServing(state == Readiness::State::kReady);
  });
  return std::unique_ptr<GrpcServer>(new GrpcServer(std::move(impl)));
}

void GrpcServer::Stop(std::chrono::milliseconds patience) {
  if (std::exchange(impl_->stopped, true)) return;
  impl_->readiness->Watch(nullptr);
  impl_->health.SetServing(false);
  impl_->health.EndWatches();
  impl_->server->Shutdown(std::chrono::system_clock::now() + patience);
  impl_->server->Wait();
}

}  // namespace sluice::server::rpc
