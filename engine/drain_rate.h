#pragma once

#include <algorithm>
#include <cmath>
#include <mutex>

#include "engine/request.h"

namespace sluice::engine {

// How fast places in the queue come free, and when one who was refused may expect one: refused
// callers stand in a virtual line behind the door, and each answer that ends lets one of them in.
// Thread-safe; cheap.
class DrainRate {
 public:
  // The engine has work again after having had none: the time between tells nothing.
  void OnBusy(Clock::time_point now) {
    std::lock_guard lock(mu_);
    if (first_ != Clock::time_point()) first_ += now - last_;
    last_ = now;
  }

  // `answers` ended at `now`.
  void OnEnded(int answers, Clock::time_point now) {
    std::lock_guard lock(mu_);
    Decay(now);
    ended_ += answers;
    known_ = true;
    line_ = std::max(0.0, line_ - answers);
  }

  // A caller who wanted `answers` places was refused at `now`.
  void OnRefused(int answers, Clock::time_point now) {
    std::lock_guard lock(mu_);
    Decay(now);
    line_ = std::min(line_ + answers, kLineMax);
  }

  // Whole seconds, in [1, 600].
  int RetryAfterSeconds(Clock::time_point now) {
    std::lock_guard lock(mu_);
    Decay(now);
    if (!known_) return 1;
    // What has been seen of the window so far, in its weights.
    const double lived = std::chrono::duration<double>(now - first_).count();
    const double seen = kWindowSeconds * (1 - std::exp(-lived / kWindowSeconds));
    const double rate = ended_ / std::max(seen, 1.0);
    return static_cast<int>(std::clamp(std::ceil((line_ + 1) / rate), 1.0, 600.0));
  }

 private:
  static constexpr double kWindowSeconds = 10;
  static constexpr double kLineMax = 1e6;

  void Decay(Clock::time_point now) {
    if (first_ == Clock::time_point()) first_ = last_ = now;
    const double seconds = std::chrono::duration<double>(now - last_).count();
    if (seconds <= 0) return;
    last_ = now;
    const double keep = std::exp(-seconds / kWindowSeconds);
    ended_ *= keep;
    // Not all who were refused come back.
    line_ *= keep;
  }

  std::mutex mu_;
  Clock::time_point first_;
  Clock::time_point last_;
  bool known_ = false;
  double ended_ = 0;  // answers, each weighing less the older it is: rate times window
  double line_ = 0;
};

}  // namespace sluice::engine
