#pragma once

#include <chrono>
#include <cstddef>

namespace sluice::server {

// What one client, and all clients together, may take of the HTTP front. Fixed at start-up.
struct HttpLimits {
  size_t header_bytes = 32 << 10;  // request line and headers; more: 431
  int header_count = 128;          // lines of headers; more: 431
  size_t body_bytes = 8 << 20;     // more: 413
  // Of the bodies that are held at once, all requests together: a body that does not fit gets 503.
  // The first `free_bytes` of each do not count, so that small requests get through when others
  // fill the budget; they are bounded by the number of connections. Likewise of the answers that
  // are not streamed.
  size_t bodies_bytes = 256 << 20;
  size_t answers_bytes = 256 << 20;
  size_t free_bytes = 64 << 10;
  size_t early_bytes = 64 << 10;     // of following requests, taken in while one is answered
  size_t backlog_bytes = 256 << 10;  // of one stream, waiting for a slow reader; more: cancelled
  size_t linger_bytes = 64 << 20;    // of a refused body, read and dropped before the close
  // The kernel's, of one connection; 0: as it sees fit, which is megabytes for each slow reader.
  int send_buffer_bytes = 128 << 10;
  int connections = 4096;       // more: 503 and closed
  int peer_connections = 2048;  // of one address (IPv6: one /64 network); more: 429 and closed
  std::chrono::milliseconds header_timeout{10'000};  // from a request's first byte to its headers
  std::chrono::milliseconds body_timeout{60'000};    // from the headers to the body's end
  std::chrono::milliseconds idle_timeout{75'000};    // between requests
  std::chrono::milliseconds stall_timeout{30'000};   // a write that makes no progress
  std::chrono::milliseconds linger_timeout{2'000};   // for the client to take a refusal
};

}  // namespace sluice::server
