#pragma once

#include <algorithm>
#include <cmath>
#include <mutex>

#include "engine/request.h"

namespace sluice::engine {

// How fast places in the queue come free, and when one who was refused may come back: the refused
// are given appointments one after another, at half the rate at which answers end, since others
// come meanwhile. Thread-safe; cheap.
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
  }

  // A caller who wanted `answers` places was refused at `now`: seconds after which it may come
  // back, whole, in [1, 600]. `expected_rate`: answers a second, by how long they take; 0 when it
  // is not known.
  int Appoint(int answers, double expected_rate, Clock::time_point now) {
    std::lock_guard lock(mu_);
    Decay(now);
    // What has been seen of the window so far, in its weights.
    const double lived = Seconds(now - first_);
    const double seen = kWindowSeconds * (1 - std::exp(-lived / kWindowSeconds));
    double rate = std::max(ended_ / std::max(seen, 1.0), expected_rate);
    if (rate <= 0) rate = kUnknownRate;
    const double more = std::min(answers / (kShare * rate), kSecondsMax);
    appointment_ =
        std::min(std::max(appointment_, now) + DurationOf(more), now + DurationOf(kSecondsMax));
    return static_cast<int>(std::clamp(std::ceil(Seconds(appointment_ - now)), 1.0, kSecondsMax));
  }

 private:
  static constexpr double kWindowSeconds = 10;
  static constexpr double kShare = 0.5;
  static constexpr double kUnknownRate = 1;
  static constexpr double kSecondsMax = 600;

  void Decay(Clock::time_point now) {
    if (first_ == Clock::time_point()) first_ = last_ = now;
    const double seconds = Seconds(now - last_);
    if (seconds <= 0) return;
    last_ = now;
    ended_ *= std::exp(-seconds / kWindowSeconds);
  }

  std::mutex mu_;
  Clock::time_point first_;
  Clock::time_point last_;
  double ended_ = 0;               // answers, each weighing less the older it is: rate times window
  Clock::time_point appointment_;  // the last one given
};

}  // namespace sluice::engine
