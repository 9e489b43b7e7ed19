#pragma once

#include <prometheus/client_metric.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

namespace sluice::server {

// A histogram of a few atomics: Observe takes no lock, so that neither the engine's nor the output
// thread ever waits for a scrape. Any thread. A reader may see an observation in the buckets and
// not yet in the sum; the buckets always agree with the count.
class AtomicHistogram {
 public:
  // `edges`: inclusive upper edges, ascending.
  explicit AtomicHistogram(std::vector<double> edges)
      : edges_(std::move(edges)),
        counts_(std::make_unique<std::atomic<uint64_t>[]>(edges_.size() + 1)) {}

  // Negative values, as clocks that disagree make them, count as 0.
  void Observe(double value) {
    value = value > 0 ? value : 0;
    const auto edge = std::lower_bound(edges_.begin(), edges_.end(), value);
    counts_[static_cast<size_t>(edge - edges_.begin())].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(value, std::memory_order_relaxed);
  }

  prometheus::ClientMetric::Histogram Read() const {
    prometheus::ClientMetric::Histogram out;
    out.bucket.reserve(edges_.size() + 1);
    for (size_t i = 0; i <= edges_.size(); ++i) {
      out.sample_count += counts_[i].load(std::memory_order_relaxed);
      const double edge = i < edges_.size() ? edges_[i] : std::numeric_limits<double>::infinity();
      out.bucket.push_back({out.sample_count, edge});
    }
    out.sample_sum = sum_.load(std::memory_order_relaxed);
    return out;
  }

 private:
  const std::vector<double> edges_;
  const std::unique_ptr<std::atomic<uint64_t>[]> counts_;  // one more than edges
  std::atomic<double> sum_{0};
};

}  // namespace sluice::server
