#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <utility>

namespace sluice::server {

// What the daemon's main thread waits for.
struct LifeEvent {
  enum class Kind { kLoaded, kLoadFailed, kSignal, kFatal };
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
    LifeEvent event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

 private:
  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<LifeEvent> events_;
};

}  // namespace sluice::server
