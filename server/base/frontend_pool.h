#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace sluice::server {

// Threads for pure functions that take time: parsing, templates, tokenising, building large
// answers. Bounded: what comes in from outside may be refused, what ends a request may not.
class FrontendPool {
 public:
  FrontendPool(int threads, int queue_max);
  ~FrontendPool();  // Wait
  FrontendPool(const FrontendPool&) = delete;
  FrontendPool& operator=(const FrontendPool&) = delete;

  // False when `queue_max` tasks of this kind wait or run already.
  bool TryPost(std::function<void()> task);
  void Post(std::function<void()> task);
  // Finishes what was accepted and ends the threads; tasks posted later never run. Idempotent; not
  // to be called by a task.
  void Wait();
  int queue_max() const { return queue_max_; }

 private:
  struct Task {
    std::function<void()> run;
    bool counted = false;  // against queue_max_
  };
  void Work();

  const int queue_max_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  int counted_ = 0;
  bool ending_ = false;
  std::mutex join_mutex_;
  std::vector<std::thread> threads_;
};

}  // namespace sluice::server
