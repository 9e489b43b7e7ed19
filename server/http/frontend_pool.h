#pragma once

#include <atomic>
#include <functional>
#include <memory>

namespace sluice::server {

// Threads for pure functions that take time: parsing, templates, tokenising, building large
// answers. Bounded: what comes in from outside may be refused, what ends a request may not.
class FrontendPool {
 public:
  FrontendPool(int threads, int queue_max);
  ~FrontendPool();  // Wait
  FrontendPool(const FrontendPool&) = delete;
  FrontendPool& operator=(const FrontendPool&) = delete;

  // False when `queue_max` tasks wait or run already.
  bool TryPost(std::function<void()> task);
  void Post(std::function<void()> task);
  // Finishes what was accepted and ends the threads; tasks posted later never run. Idempotent.
  void Wait();
  int queue_max() const { return queue_max_; }

 private:
  struct Impl;
  const int queue_max_;
  std::atomic<int> queued_{0};
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::server
