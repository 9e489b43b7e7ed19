#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace sluice::engine {

// Which of the steps that were measured those of a simulation are like: what was measured is played
// on, a stretch of time from a random place, then another one. Steps drawn one by one would miss
// that slow ones come together, when the host is busy with something else (the moving blocks
// bootstrap, Kunsch 1989). The same seed, the same steps, whatever the standard library.
class ScatterWalk {
 public:
  // `starts`: of the measured steps, seconds, in order; they outlive the walk.
  ScatterWalk(uint64_t seed, std::span<const double> starts)
      : engine_(seed),
        starts_(starts),
        whole_(starts.empty() ? 0 : starts.back() - starts.front()) {}

  // The measured step that one which begins now is like. Times go on from call to call; there is a
  // measured step.
  size_t PlaceAt(double seconds) {
    if (whole_ <= 0) return PlaceIn(starts_.size());
    if (seconds >= stretch_end_) {
      stretch_begin_ = seconds;
      stretch_end_ = seconds + std::min(whole_ / kStretchesMin, kStretchMax);
      offset_ = Uniform() * whole_;
    }
    const double at = starts_.front() + std::fmod(offset_ + seconds - stretch_begin_, whole_);
    // The next to begin: of those under way, a long one would be met more often than a short one.
    const auto found = std::lower_bound(starts_.begin(), starts_.end(), at);
    return std::min(static_cast<size_t>(found - starts_.begin()), starts_.size() - 1);
  }
  // Any of `count`, each as likely.
  size_t PlaceIn(size_t count) {
    return std::min(static_cast<size_t>(Uniform() * static_cast<double>(count)), count - 1);
  }

 private:
  static constexpr double kStretchMax = 30;   // seconds
  static constexpr double kStretchesMin = 8;  // in what was measured

  double Uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }

  std::mt19937_64 engine_;
  const std::span<const double> starts_;
  const double whole_;
  double stretch_begin_ = 0, stretch_end_ = -1;
  double offset_ = 0;  // of the stretch's beginning in what was measured
};

// Values that were measured, in their order.
class Samples {
 public:
  Samples() = default;
  explicit Samples(std::vector<double> values)
      : values_(std::move(values)),
        mean_(values_.empty() ? 0
                              : std::accumulate(values_.begin(), values_.end(), 0.0) /
                                    static_cast<double>(values_.size())) {}

  bool empty() const { return values_.empty(); }
  size_t size() const { return values_.size(); }
  double mean() const { return mean_; }
  double operator[](size_t place) const { return values_[place]; }

 private:
  std::vector<double> values_;
  double mean_ = 0;
};

// The middle one, by value; 0 of none.
inline double MedianOf(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace sluice::engine
