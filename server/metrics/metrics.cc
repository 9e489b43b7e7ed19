#include "server/metrics/metrics.h"

#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <map>
#include <string>
#include <utility>

#include "server/metrics/family_list.h"
#include "server/metrics/model_metrics.h"
#include "server/metrics/process_stats.h"

namespace sluice::server {
namespace {

// Names without a prefix are those that every Prometheus client library exports.
void AppendProcess(const std::string& version, FamilyList* out) {
  const ProcessStats stats = ReadProcessStats();
  const auto gauge = [&](const char* name, const char* help, int64_t value) {
    out->Gauge(name, help, static_cast<double>(value), {});
  };
  gauge("process_resident_memory_bytes", "Resident memory.", stats.resident_bytes);
  gauge("process_virtual_memory_bytes", "Virtual memory.", stats.virtual_bytes);
  out->Counter("process_cpu_seconds_total", "User and system CPU time.", stats.cpu_seconds, {});
  out->Gauge("process_start_time_seconds", "Start of the process, Unix time.",
             stats.start_time_seconds, {});
  gauge("process_open_fds", "Open file descriptors.", stats.open_fds);
  gauge("process_max_fds", "Most open file descriptors.", stats.max_fds);
  gauge("process_threads", "Threads.", stats.threads);
  out->Gauge("sluice_build_info", "Always 1; the version is a label.", 1, {{"version", version}});
}

}  // namespace

struct Metrics::Impl {
  explicit Impl(std::string_view version_in) : version(version_in), requests(&registry) {}

  const std::string version;
  prometheus::Registry registry;
  RequestCounts requests;
  std::map<std::string, std::unique_ptr<ModelMetrics>, std::less<>> models;
};

Metrics::Metrics(const ModelRegistry* registry, std::string_view version, Options options)
    : impl_(std::make_unique<Impl>(version)) {
  for (const auto& model : registry->models()) {
    impl_->models.emplace(model->facts.name,
                          std::make_unique<ModelMetrics>(model.get(), options.vllm_names));
  }
}

Metrics::~Metrics() = default;

engine::EngineObserver* Metrics::ObserverOf(std::string_view model_name) {
  const auto found = impl_->models.find(model_name);
  return found == impl_->models.end() ? nullptr : found->second.get();
}

RequestCounts& Metrics::requests() { return impl_->requests; }

std::string Metrics::Render() const {
  FamilyList list;
  for (const auto& [name, model] : impl_->models) model->AppendTo(&list);
  list.Append(impl_->registry.Collect());
  AppendProcess(impl_->version, &list);
  return prometheus::TextSerializer().Serialize(list.families());
}

}  // namespace sluice::server
