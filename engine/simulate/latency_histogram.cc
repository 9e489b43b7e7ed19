#include "engine/simulate/latency_histogram.h"

#include <algorithm>
#include <cmath>

namespace sluice::engine {
namespace {

constexpr double kLeast = 1e-6;
constexpr double kGrowth = 1.005;
constexpr size_t kBuckets = 6200;  // up to beyond 1e7 seconds

}  // namespace

LatencyHistogram::LatencyHistogram() : buckets_(kBuckets) {}

void LatencyHistogram::Add(double seconds) {
  const double place = std::log(std::max(seconds, kLeast) / kLeast) / std::log(kGrowth);
  ++buckets_[std::min(static_cast<size_t>(place), kBuckets - 1)];
  ++count_;
  sum_ += seconds;
  max_ = std::max(max_, seconds);
}

double LatencyHistogram::Quantile(double q) const {
  if (count_ == 0) return 0;
  const auto rank = std::max<int64_t>(1, std::llround(std::ceil(q * static_cast<double>(count_))));
  int64_t seen = 0;
  for (size_t i = 0; i < kBuckets; ++i) {
    seen += buckets_[i];
    if (seen >= rank)
      return std::min(max_, kLeast * std::pow(kGrowth, static_cast<double>(i) + 0.5));
  }
  return max_;
}

}  // namespace sluice::engine
