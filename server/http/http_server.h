#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "server/http/connection_set.h"
#include "server/http/limits.h"
#include "server/http/router.h"

namespace sluice::server {

struct HttpServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8000;  // 0: one that is free
  int io_threads = 1;
  HttpLimits limits;
  std::vector<std::string> cors_origins;  // whose pages may call: see cors.h; empty: none
};

// Listens, and serves each connection on its own strand. I/O threads never tokenise, wait or sleep.
class HttpServer {
 public:
  // Opens the port and starts. Unavailable, naming address and cause, when that fails. `router`
  // outlives the server; `on_request` is called on I/O threads.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Listen(
      const HttpServerOptions& options, const Router* router,
      ConnectionSet::OnRequest on_request = {});
  ~HttpServer();  // Stop with no patience
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const;
  int connections() const;

  // Closes the port and the idle connections; the others end with the answers that are under way.
  // Does not wait for them. Idempotent, not after Stop.
  void StopAccepting();

  // Closes the port, lets the answers under way go out for at most `patience`, closes the
  // connections and ends the threads. Handlers aren't called any more after it. Idempotent.
  void Stop(std::chrono::milliseconds patience);

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::server
