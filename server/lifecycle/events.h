#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace sluice::server {

// What the daemon's main thread waits for.
struct LifeEvent {
  enum class Kind { kLoaded, kLoadFailed, kSignal, kFatal, kRecord };
  Kind kind = Kind::kSignal;
  std::string message;
  int signal = 0;
};

// Thread-safe; unbounded, since there are few.
class LifeEvents {
 public:
  void Post(LifeEvent event) {
    {
      std::lock_guard lock(mutex_);
      events_.push_back(std::move(event));
    }
    posted_.notify_one();
  }
  LifeEvent Next() {
    std::unique_lock lock(mutex_);
    posted_.wait(lock, [this] { return !events_.empty(); });
    return Take();
  }
  // Nothing when `time` is over first.
  std::optional<LifeEvent> NextWithin(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    if (!posted_.wait_for(lock, time, [this] { return !events_.empty(); })) return std::nullopt;
    return Take();
  }

 private:
  LifeEvent Take() {  // under the mutex; there is one
    LifeEvent event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<LifeEvent> events_;
};

}  // namespace sluice::server
