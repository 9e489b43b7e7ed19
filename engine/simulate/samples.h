#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "engine/request.h"

namespace sluice::engine {

inline Clock::duration DurationOf(double seconds) {
  return std::chrono::round<Clock::duration>(std::chrono::duration<double>(seconds));
}

// The random numbers of a simulation: the same seed, the same ones, whatever the standard library.
class Draws {
 public:
  explicit Draws(uint64_t seed) : engine_(seed) {}
  // In [0, 1).
  double Next() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }

 private:
  std::mt19937_64 engine_;
};

// Values that were measured, to draw from.
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
  // One of them, each as likely as the others; 0 when there is none. Without `draws` the mean.
  double Draw(Draws* draws) const {
    if (draws == nullptr || values_.empty()) return mean_;
    const double place = draws->Next() * static_cast<double>(values_.size());
    return values_[std::min(static_cast<size_t>(place), values_.size() - 1)];
  }

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
