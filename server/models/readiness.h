#pragma once

#include <mutex>
#include <string>
#include <utility>

namespace sluice::server {

// Whether the daemon takes requests, and why not. Thread-safe.
class Readiness {
 public:
  enum class State { kLoading, kReady, kDraining, kFailed };

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
  // Nothing follows kFailed, and only that follows kDraining.
  void Set(State state) {
    std::lock_guard lock(mutex_);
    if (now_.state == State::kFailed) return;
    if (now_.state == State::kDraining && state != State::kFailed) return;
    now_.state = state;
  }
  Snapshot snapshot() const {
    std::lock_guard lock(mutex_);
    return now_;
  }

 private:
  mutable std::mutex mutex_;
  Snapshot now_;
};

// "loading", "ready", "draining", "failed".
inline const char* StateName(Readiness::State state) {
  switch (state) {
    case Readiness::State::kLoading:
      return "loading";
    case Readiness::State::kReady:
      return "ready";
    case Readiness::State::kDraining:
      return "draining";
    case Readiness::State::kFailed:
      break;
  }
  return "failed";
}

}  // namespace sluice::server
