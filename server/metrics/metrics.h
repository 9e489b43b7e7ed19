#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "engine/stats.h"
#include "server/models/model_registry.h"

namespace sluice::server {

// Everything at /metrics, in Prometheus' text format. Names follow vLLM's with the prefix sluice_.
// Gauges and token counters are read from the engines' published snapshots when scraped;
// latency histograms are fed by the engine's output thread. No engine lock is taken.
class Metrics {
 public:
  // `registry` outlives the metrics and is filled already.
  Metrics(const ModelRegistry* registry, std::string_view version);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // To be given to that model's engine; lives as long as the metrics.
  engine::EngineObserver* ObserverOf(std::string_view model_name);

  // `route` is a route's path or "other": never a client's text, or the series would grow without
  // end. Any thread.
  void CountRequest(std::string_view route, int status);

  std::string Render() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::server
