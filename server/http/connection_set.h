#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "server/http/byte_budget.h"
#include "server/http/limits.h"
#include "server/http/peer_counts.h"
#include "server/http/router.h"

namespace sluice::server {

class ClosableConnection {
 public:
  virtual ~ClosableConnection() = default;
  virtual void CloseWhenIdle() = 0;
  virtual void CloseNow() = 0;
};

// What a server's connections share, and the list of those that live. Thread-safe.
class ConnectionSet {
 public:
  // Told of each answered request: the route's path or "other", the status, and HttpResponse::code.
  using OnRequest = std::function<void(std::string_view route, int status, std::string_view code)>;

  // `cors_origins`: see cors.h.
  ConnectionSet(HttpLimits limits, std::vector<std::string> cors_origins, const Router* router,
                OnRequest on_request)
      : limits_(limits),
        cors_origins_(std::move(cors_origins)),
        router_(router),
        on_request_(std::move(on_request)),
        bodies_(std::make_shared<ByteBudget>(limits.bodies_bytes, limits.free_bytes)),
        answers_(std::make_shared<ByteBudget>(limits.answers_bytes, limits.free_bytes)),
        peers_(std::make_shared<PeerCounts>(limits.peer_connections)) {}

  const HttpLimits& limits() const { return limits_; }
  const std::vector<std::string>& cors_origins() const { return cors_origins_; }
  const Router& router() const { return *router_; }
  const std::shared_ptr<ByteBudget>& bodies() const { return bodies_; }
  const std::shared_ptr<ByteBudget>& answers() const { return answers_; }
  PeerCounts& peers() { return *peers_; }
  void CountRequest(std::string_view route, int status, std::string_view code) const {
    if (on_request_) on_request_(route, status, code);
  }

  int size() const {
    std::lock_guard lock(mutex_);
    return static_cast<int>(live_.size());
  }
  void Insert(const std::shared_ptr<ClosableConnection>& connection) {
    std::lock_guard lock(mutex_);
    live_.emplace(connection.get(), connection);
    if (closing_) connection->CloseWhenIdle();
  }
  void Erase(ClosableConnection* connection) {
    std::lock_guard lock(mutex_);
    live_.erase(connection);
    if (live_.empty()) empty_.notify_all();
  }
  // Asks all, also those to come, to end once their answers are out.
  void StartClosing() {
    {
      std::lock_guard lock(mutex_);
      closing_ = true;
    }
    for (const auto& connection : Live()) connection->CloseWhenIdle();
  }
  // The same, and waits for that; then ends the rest.
  void CloseAll(std::chrono::milliseconds patience) {
    StartClosing();
    if (WaitUntilEmpty(patience)) return;
    for (const auto& connection : Live()) connection->CloseNow();
    WaitUntilEmpty(std::chrono::seconds(5));
  }

 private:
  // Held outside the lock: the last holder of a connection calls Erase.
  std::vector<std::shared_ptr<ClosableConnection>> Live() const {
    std::vector<std::shared_ptr<ClosableConnection>> live;
    std::lock_guard lock(mutex_);
    for (const auto& [key, weak] : live_) {
      if (auto connection = weak.lock()) live.push_back(std::move(connection));
    }
    return live;
  }
  bool WaitUntilEmpty(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    return empty_.wait_for(lock, patience, [this] { return live_.empty(); });
  }

  const HttpLimits limits_;
  const std::vector<std::string> cors_origins_;
  const Router* const router_;
  const OnRequest on_request_;
  const std::shared_ptr<ByteBudget> bodies_;
  const std::shared_ptr<ByteBudget> answers_;
  const std::shared_ptr<PeerCounts> peers_;
  mutable std::mutex mutex_;
  std::condition_variable empty_;
  bool closing_ = false;
  std::unordered_map<ClosableConnection*, std::weak_ptr<ClosableConnection>> live_;
};

}  // namespace sluice::server
