#pragma once

#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::server {

// The families of one scrape, in the order in which they were first named.
class FamilyList {
 public:
  using Labels = std::vector<prometheus::ClientMetric::Label>;

  void Counter(const std::string& name, const char* help, double value, Labels labels) {
    Series(prometheus::MetricType::Counter, name, help, std::move(labels))->counter.value = value;
  }
  void Gauge(const std::string& name, const char* help, double value, Labels labels) {
    Series(prometheus::MetricType::Gauge, name, help, std::move(labels))->gauge.value = value;
  }
  void Histogram(const std::string& name, const char* help,
                 prometheus::ClientMetric::Histogram value, Labels labels) {
    Series(prometheus::MetricType::Histogram, name, help, std::move(labels))->histogram =
        std::move(value);
  }
  void Append(std::vector<prometheus::MetricFamily> families) {
    for (auto& family : families) families_.push_back(std::move(family));
  }

  const std::vector<prometheus::MetricFamily>& families() const { return families_; }

 private:
  // Valid until the next call.
  prometheus::ClientMetric* Series(prometheus::MetricType type, const std::string& name,
                                   const char* help, Labels labels) {
    const auto [place, is_new] = index_.emplace(name, families_.size());
    if (is_new) {
      families_.emplace_back();
      families_.back().name = name;
      families_.back().help = help;
      families_.back().type = type;
    }
    auto& series = families_[place->second].metric;
    series.emplace_back();
    series.back().label = std::move(labels);
    return &series.back();
  }

  std::vector<prometheus::MetricFamily> families_;
  std::map<std::string, size_t> index_;
};

}  // namespace sluice::server
