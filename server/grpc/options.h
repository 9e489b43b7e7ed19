#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace sluice::server::rpc {

// Address and limits of the gRPC server. Fixed at start-up.
struct GrpcOptions {
  std::string host;     // empty: where HTTP listens
  int32_t port = 8001;  // 0: one that is free; -1: no gRPC
  // Of one message. A request with more: RESOURCE_EXHAUSTED; an answer, but for streams, which have
  // small ones: INVALID_ARGUMENT.
  int32_t message_bytes_max = 4 << 20;
  int32_t metadata_bytes_max = 16 << 10;  // of one call
  int32_t streams_max = 1024;        // calls at once on one connection; more wait in the client
  size_t backlog_bytes = 256 << 10;  // of one stream, waiting for a slow reader; more: cancelled
  // For a connection to become one of HTTP/2.
  std::chrono::milliseconds handshake_timeout{10'000};
  // Pings to clients, so that those that vanished are noticed; and the time for their answers.
  std::chrono::milliseconds keepalive_time{60'000};
  std::chrono::milliseconds keepalive_timeout{20'000};
  // Clients that ping more often than this are sent away. Pings without calls are welcome.
  std::chrono::milliseconds client_ping_interval_min{5'000};
  // After this age a connection takes no new calls, and after the grace those that still run end.
  // 0: no limit of age.
  std::chrono::milliseconds connection_age_max{0};
  std::chrono::milliseconds connection_age_grace{600'000};
};

}  // namespace sluice::server::rpc
