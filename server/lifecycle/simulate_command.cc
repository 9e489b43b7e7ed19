#include "server/lifecycle/simulate_command.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/record/replay.h"
#include "engine/simulate/recorded_workload.h"
#include "engine/simulate/recording.h"
#include "engine/simulate/simulator.h"
#include "engine/simulate/trace_workload.h"
#include "server/lifecycle/simulate_report.h"

namespace sluice::server {
namespace {

using engine::Recording;
using engine::SimulatedServer;

// Without a record, and not told.
constexpr int32_t kBlockSize = 16;
constexpr int32_t kContextTokens = 8192;

absl::Status At(const std::string& path, const absl::Status& status) {
  return engine::InvalidArgument(path + ": " + engine::Message(status));
}

absl::StatusOr<Recording> ReadRecord(const SimulateOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(const std::string bytes, engine::ReadRecordFile(options.record_path));
  absl::StatusOr<Recording> recording = engine::ReadRecording(bytes, options.targets);
  if (!recording.ok()) return At(options.record_path, recording.status());
  return recording;
}

template <class T>
void Override(const std::optional<T>& value, T* field) {
  if (value) *field = *value;
}

// The record's server, or a plain one, and what was told otherwise.
SimulatedServer ServerOf(const SimulateOptions& options, const Recording* recording) {
  SimulatedServer server;
  if (recording != nullptr) {
    server.limits = recording->limits;
    server.scheduler = recording->scheduler;
    server.depth = recording->depth;
    server.overheads = recording->overheads;
  } else {
    server.limits.slots = server.scheduler.running_max;
    server.limits.step_tokens = server.scheduler.step_tokens;
    server.limits.block_size = kBlockSize;
    server.limits.context_tokens = kContextTokens;
  }
  engine::ExecutorLimits& limits = server.limits;
  Override(options.running_max, &limits.slots);
  Override(options.running_max, &server.scheduler.running_max);
  Override(options.step_tokens, &limits.step_tokens);
  Override(options.step_tokens, &server.scheduler.step_tokens);
  Override(options.block_size, &limits.block_size);
  Override(options.context_tokens, &limits.context_tokens);
  Override(options.kv_blocks, &limits.kv_blocks);
  if (limits.kv_blocks == 0) {
    const int64_t tokens = std::min(
        engine::kKvTokensMax, int64_t{limits.slots} * limits.context_tokens + limits.block_size);
    limits.kv_blocks = static_cast<int32_t>(tokens / limits.block_size);
  }
  Override(options.prefills_max, &server.scheduler.prefills_max);
  Override(options.inter_token_target, &server.scheduler.inter_token_target);
  Override(options.share_prefixes, &server.scheduler.share_prefixes);
  Override(options.steps_in_flight, &server.depth);
  server.waiting_max = options.waiting_max;
  return server;
}

absl::Status SetTime(const SimulateOptions& options, const Recording* recording,
                     SimulationReport* report) {
  if (options.cost) {
    report->server.time = engine::StepTime(*options.cost);
    return absl::OkStatus();
  }
  const auto cost = engine::FitStepCost(recording->steps);
  if (!cost.ok()) return At(options.record_path, cost.status());
  report->server.time = engine::StepTime(*cost, recording->steps);
  report->fitted_steps = recording->steps.size();
  return absl::OkStatus();
}

using Made = absl::StatusOr<std::unique_ptr<engine::Workload>>;

Made RecordedLoad(const SimulateOptions& options, const Recording& recording,
                  SimulationReport* report) {
  auto workload = std::make_unique<engine::RecordedWorkload>(
      recording, options.speed, engine::ContextTokens(report->server.limits),
      options.think_time_max);
  report->load = absl::StrCat(workload->size(), " requests of ", options.record_path);
  if (workload->left_out() > 0)
    report->notes.push_back(absl::StrCat(workload->left_out(),
                                         " left out: cancelled before a token came, or too long"));
  if (options.think_time_max > 0)
    report->notes.push_back(
        absl::StrCat(workload->following(), " sent when an answer has ended, as they were"));
  report->recorded = recording.figures;
  return workload;
}

Made TraceLoad(const SimulateOptions& options, SimulationReport* report) {
  std::ifstream file(options.trace_path, std::ios::binary);
  if (!file) return engine::InvalidArgument("can't read " + options.trace_path);
  SLUICE_ASSIGN_OR_RETURN(engine::Trace trace,
                          engine::ReadTrace(&file, options.trace_path, options.trace));
  report->server.limits.vocabulary = engine::TraceWorkload::kVocabulary;
  const int32_t context = engine::ContextTokens(report->server.limits);
  if (context < 2) return engine::InvalidArgument("the KV blocks hold less than two tokens");
  auto workload = std::make_unique<engine::TraceWorkload>(std::move(trace), options.speed, context);
  report->load = absl::StrCat(workload->size(), " requests of ", options.trace_path, " (",
                              NameOf(workload->trace().format), ")");
  if (workload->clipped() > 0)
    report->notes.push_back(
        absl::StrCat(workload->clipped(), " clipped to the context of ", context, " tokens"));
  if (workload->trace().skipped > 0)
    report->notes.push_back(
        absl::StrCat(workload->trace().skipped, " skipped: without prompt or answer"));
  return workload;
}

absl::StatusOr<SimulationReport> Run(const SimulateOptions& options) {
  std::optional<Recording> recording;
  if (!options.record_path.empty()) {
    SLUICE_ASSIGN_OR_RETURN(recording, ReadRecord(options));
  }
  const Recording* const known = recording ? &*recording : nullptr;
  SimulationReport report;
  report.server = ServerOf(options, known);
  report.options = {options.targets, options.seed, options.scatter};
  SLUICE_RETURN_IF_ERROR(SetTime(options, known, &report));
  Made workload = options.trace_path.empty() ? RecordedLoad(options, *recording, &report)
                                             : TraceLoad(options, &report);
  if (!workload.ok()) return workload.status();
  if (options.speed != 1)
    report.notes.push_back(absl::StrCat("at ", options.speed, " times the speed"));
  const auto begin = engine::Clock::now();
  SLUICE_ASSIGN_OR_RETURN(report.simulated,
                          engine::Simulate(report.server, report.options, **workload));
  report.wall_seconds = engine::Seconds(engine::Clock::now() - begin);
  return report;
}

}  // namespace

int RunSimulate(const SimulateOptions& options) {
  const auto report = Run(options);
  if (!report.ok()) {
    std::fprintf(stderr, "sluiced simulate: %s\n", engine::Message(report.status()).c_str());
    return 2;
  }
  std::fputs((options.json ? PrintJson(*report) : PrintTable(*report)).c_str(), stdout);
  return 0;
}

}  // namespace sluice::server
