#include "server/metrics/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>
#include <vector>

#include "server/metrics/buckets.h"
#include "server/metrics/process_stats.h"

namespace sluice::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

double Seconds(engine::Clock::duration d) { return std::chrono::duration<double>(d).count(); }

// vLLM's names for how a request ended.
const char* ReasonLabel(engine::FinishReason reason) {
  switch (reason) {
    case engine::FinishReason::kStop:
      return "stop";
    case engine::FinishReason::kLength:
      return "length";
    case engine::FinishReason::kCancelled:
      return "abort";
    default:
      return "error";
  }
}

class ModelObserver : public engine::EngineObserver {
 public:
  ModelObserver(prometheus::Registry* registry, const std::string& model) {
    const std::map<std::string, std::string> label = {{"model_name", model}};
    const auto histogram = [&](const char* name, const char* help, double last) {
      auto& family = prometheus::BuildHistogram().Name(name).Help(help).Register(*registry);
      return &family.Add(label, LatencyBuckets(0.0005, last));
    };
    first_token_ = histogram("sluice_time_to_first_token_seconds",
                             "From a request's arrival to its first token.", 60);
    next_token_ =
        histogram("sluice_inter_token_latency_seconds", "Between two tokens of one answer.", 60);
    // Long answers and long queues last: up to half an hour.
    whole_ = histogram("sluice_e2e_request_latency_seconds",
                       "From a request's arrival to the end of an answer.", 1800);
    queued_ = histogram("sluice_request_queue_time_seconds",
                        "From a request's arrival to its first step.", 1800);
    auto& endings = prometheus::BuildCounter()
                        .Name("sluice_request_success_total")
                        .Help("Answers by the way they ended.")
                        .Register(*registry);
    for (const char* reason : {"stop", "length", "abort", "error"}) {
      endings_[reason] = &endings.Add({{"model_name", model}, {"finished_reason", reason}});
    }
  }

  void OnFirstToken(double seconds_since_arrival, double seconds_queued) override {
    first_token_->Observe(std::max(seconds_since_arrival, 0.0));
    queued_->Observe(std::max(seconds_queued, 0.0));
  }
  void OnNextToken(double seconds_since_last) override {
    next_token_->Observe(std::max(seconds_since_last, 0.0));
  }
  void OnFinished(engine::FinishReason reason, const engine::SequenceTimes& times, int32_t,
                  int32_t) override {
    endings_.at(ReasonLabel(reason))->Increment();
    if (times.last_token != engine::Clock::time_point{}) {
      whole_->Observe(std::max(Seconds(times.last_token - times.arrival), 0.0));
    }
  }

 private:
  prometheus::Histogram* first_token_;
  prometheus::Histogram* next_token_;
  prometheus::Histogram* whole_;
  prometheus::Histogram* queued_;
  std::map<std::string, prometheus::Counter*> endings_;
};

// One family from numbers that are read when scraped.
class SnapshotFamily {
 public:
  SnapshotFamily(MetricType type, const char* name, const char* help) {
    family_.type = type;
    family_.name = name;
    family_.help = help;
  }
  void Add(double value, std::vector<ClientMetric::Label> labels = {}) {
    ClientMetric metric;
    metric.label = std::move(labels);
    if (family_.type == MetricType::Counter) {
      metric.counter.value = value;
    } else {
      metric.gauge.value = value;
    }
    family_.metric.push_back(std::move(metric));
  }
  MetricFamily Take() { return std::move(family_); }

 private:
  MetricFamily family_;
};

void AppendEngineFamilies(const ModelRegistry& models, std::vector<MetricFamily>* out) {
  const auto gauge = MetricType::Gauge;
  const auto counter = MetricType::Counter;
  SnapshotFamily running(gauge, "sluice_num_requests_running", "Sequences being computed.");
  SnapshotFamily waiting(gauge, "sluice_num_requests_waiting", "Sequences waiting for a place.");
  SnapshotFamily usage(gauge, "sluice_kv_cache_usage_perc", "Share of KV blocks in use, 0 to 1.");
  SnapshotFamily blocks(gauge, "sluice_kv_cache_blocks", "KV blocks that there are.");
  SnapshotFamily prompt(counter, "sluice_prompt_tokens_total", "Prompt tokens computed.");
  SnapshotFamily made(counter, "sluice_generation_tokens_total", "Tokens generated.");
  SnapshotFamily preempted(counter, "sluice_num_preemptions_total",
                           "Sequences set back to make room.");
  SnapshotFamily recomputed(counter, "sluice_recomputed_tokens_total",
                            "Tokens computed again after a preemption.");
  SnapshotFamily steps(counter, "sluice_engine_steps_total", "Steps that the engine ran.");
  for (const auto& model : models.models()) {
    const engine::Engine* engine = model->engine.load();
    const engine::EngineStats stats = engine == nullptr ? engine::EngineStats() : engine->stats();
    const std::vector<ClientMetric::Label> label = {{"model_name", model->facts.name}};
    const auto total = static_cast<double>(stats.kv_blocks_total);
    running.Add(static_cast<double>(stats.requests_running), label);
    waiting.Add(static_cast<double>(stats.requests_waiting), label);
    usage.Add(total > 0 ? static_cast<double>(stats.kv_blocks_used) / total : 0, label);
    blocks.Add(total, label);
    prompt.Add(static_cast<double>(stats.prompt_tokens), label);
    made.Add(static_cast<double>(stats.generation_tokens), label);
    preempted.Add(static_cast<double>(stats.preemptions), label);
    recomputed.Add(static_cast<double>(stats.recomputed_tokens), label);
    steps.Add(static_cast<double>(stats.steps), label);
  }
  for (SnapshotFamily* family :
       {&running, &waiting, &usage, &blocks, &prompt, &made, &preempted, &recomputed, &steps}) {
    out->push_back(family->Take());
  }
}

// Names without a prefix are those that every Prometheus client library exports.
void AppendProcessFamilies(const std::string& version, std::vector<MetricFamily>* out) {
  const ProcessStats stats = ReadProcessStats();
  const auto add = [&](MetricType type, const char* name, const char* help, double value) {
    SnapshotFamily family(type, name, help);
    family.Add(value);
    out->push_back(family.Take());
  };
  add(MetricType::Gauge, "process_resident_memory_bytes", "Resident memory.",
      static_cast<double>(stats.resident_bytes));
  add(MetricType::Gauge, "process_virtual_memory_bytes", "Virtual memory.",
      static_cast<double>(stats.virtual_bytes));
  add(MetricType::Counter, "process_cpu_seconds_total", "User and system CPU time.",
      stats.cpu_seconds);
  add(MetricType::Gauge, "process_start_time_seconds", "Start of the process, Unix time.",
      stats.start_time_seconds);
  add(MetricType::Gauge, "process_open_fds", "Open file descriptors.",
      static_cast<double>(stats.open_fds));
  add(MetricType::Gauge, "process_threads", "Threads.", static_cast<double>(stats.threads));
  SnapshotFamily build(MetricType::Gauge, "sluice_build_info", "Always 1; the version is a label.");
  build.Add(1, {{"version", version}});
  out->push_back(build.Take());
}

}  // namespace

struct Metrics::Impl {
  const ModelRegistry* models;
  std::string version;
  prometheus::Registry registry;
  prometheus::Family<prometheus::Counter>* requests = nullptr;
  std::map<std::string, std::unique_ptr<ModelObserver>, std::less<>> observers;
};

Metrics::Metrics(const ModelRegistry* registry, std::string_view version)
    : impl_(std::make_unique<Impl>()) {
  impl_->models = registry;
  impl_->version = std::string(version);
  impl_->requests = &prometheus::BuildCounter()
                         .Name("sluice_http_requests_total")
                         .Help("HTTP requests by route and status; 499: the client left.")
                         .Register(impl_->registry);
  for (const auto& model : registry->models()) {
    impl_->observers.emplace(model->facts.name,
                             std::make_unique<ModelObserver>(&impl_->registry, model->facts.name));
  }
}

Metrics::~Metrics() = default;

engine::EngineObserver* Metrics::ObserverOf(std::string_view model_name) {
  const auto found = impl_->observers.find(model_name);
  return found == impl_->observers.end() ? nullptr : found->second.get();
}

void Metrics::CountRequest(std::string_view route, int status) {
  impl_->requests->Add({{"path", std::string(route)}, {"status", std::to_string(status)}})
      .Increment();
}

std::string Metrics::Render() const {
  std::vector<MetricFamily> families = impl_->registry.Collect();
  AppendEngineFamilies(*impl_->models, &families);
  AppendProcessFamilies(impl_->version, &families);
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace sluice::server
