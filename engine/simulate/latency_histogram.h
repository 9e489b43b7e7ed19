#pragma once

#include <cstdint>
#include <vector>

namespace sluice::engine {

// Times in buckets each 0.5 % wider than the one before, from a microsecond on: any number of them
// in a fixed amount of memory. Mean and greatest are exact, quantiles within half a bucket.
class LatencyHistogram {
 public:
  LatencyHistogram();

  void Add(double seconds);
  int64_t count() const { return count_; }
  double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }
  double max() const { return max_; }
  // The least time that a share of at least `q` of all do not exceed; 0 of none.
  double Quantile(double q) const;

 private:
  std::vector<int64_t> buckets_;
  int64_t count_ = 0;
  double sum_ = 0;
  double max_ = 0;
};

}  // namespace sluice::engine
