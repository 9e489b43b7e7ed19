#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <utility>

namespace sluice::server {

// Whether the daemon takes requests, and why not. Thread-safe.
class Readiness {
 public:
  // In the order in which they may come. kLameDuck: asked to end, and "not ready" to whoever sends
  // requests here, but what still comes is taken. kDraining: what runs may finish, nothing else.
  enum class State { kLoading, kReady, kLameDuck, kDraining, kFailed };

  struct Snapshot {
    State state = State::kLoading;
    std::string stage;    // of loading
    double fraction = 0;  // of the stage, 0..1
  };

  void Progress(std::string stage, double fraction) {
    std::lock_guard lock(mutex_);
    now_.stage = std::move(stage);
    now_.fraction = fraction;
  }
  // There is no way back: an earlier state than the present one changes nothing.
  void Set(State state) {
    std::lock_guard lock(mutex_);
    if (state <= now_.state) return;
    now_.state = state;
    if (watcher_) watcher_(state);
  }
  // `watcher` is told the state now, and again whenever it is set, one call at a time; it must not
  // block, nor call back. Null: no call is under way any more once this returns. There is one.
  void Watch(std::function<void(State)> watcher) const {
    std::lock_guard lock(mutex_);
    watcher_ = std::move(watcher);
    if (watcher_) watcher_(now_.state);
  }
  Snapshot snapshot() const {
    std::lock_guard lock(mutex_);
    return now_;
  }

 private:
  mutable std::mutex mutex_;
  Snapshot now_;
  mutable std::function<void(State)> watcher_;
};

// "loading", "ready", "draining" (lame ducks, too), "failed".
inline const char* StateName(Readiness::State state) {
  switch (state) {
    case Readiness::State::kLoading:
      return "loading";
    case Readiness::State::kReady:
      return "ready";
    case Readiness::State::kLameDuck:
    case Readiness::State::kDraining:
      return "draining";
    case Readiness::State::kFailed:
      break;
  }
  return "failed";
}

}  // namespace sluice::server
