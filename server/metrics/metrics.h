#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "engine/stats.h"
#include "server/metrics/request_counts.h"
#include "server/models/model_registry.h"

namespace sluice::server {

// Everything at /metrics, in Prometheus' text format. Each figure has the name sluice_NAME; what
// vLLM has, too, goes out a second time as vllm:NAME with its labels (model_name and engine="0"),
// so that dashboards, autoscalers and endpoint pickers made for vLLM work as they are.
// Gauges are read from the engines' published snapshots when scraped, histograms are atomics:
// no engine lock is taken.
class Metrics {
 public:
  struct Options {
    bool vllm_names = true;
  };
  // `registry` outlives the metrics and is filled already.
  Metrics(const ModelRegistry* registry, std::string_view version, Options options);
  Metrics(const ModelRegistry* registry, std::string_view version)
      : Metrics(registry, version, Options()) {}
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // To be given to that model's engine; lives as long as the metrics.
  engine::EngineObserver* ObserverOf(std::string_view model_name);

  // Told of each call by the fronts, where they log it.
  RequestCounts& requests();

  std::string Render() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::server
