#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/drain_rate.h"
#include "engine/engine_loop.h"
#include "engine/output_loop.h"
#include "engine/request_validation.h"
#include "engine/tenant_places.h"
#include "engine/tenant_quotas.h"

namespace sluice::engine {
namespace {

// How long Drain waits, after its grace, for the cancelled answers' final chunks: about a step.
constexpr std::chrono::seconds kCancelWait{5};

EngineOptions Bounded(EngineOptions options, const ExecutorLimits& limits) {
  options.step_tokens = std::min(options.step_tokens, limits.step_tokens);
  options.running_max = std::min({options.running_max, limits.slots, options.step_tokens});
  options.waiting_max = std::clamp(options.waiting_max, 0, 1 << 20);
  options.prefills_max = std::max(options.prefills_max, 1);
  options.steps_in_flight = std::clamp(options.steps_in_flight, 1, 2);
  return options;
}

}  // namespace

struct Engine::Impl {
  // A request that has answers not yet closed; requests of one id are cancelled together.
  struct Live {
    std::vector<uint64_t> sequences;
    bool cancelled = false;
  };

  Impl(Parts parts_in, EngineOptions options_in);

  EngineLoop::Options LoopOptions() const;
  absl::Status Reserve(const std::shared_ptr<const GenerateRequest>& request,
                       std::vector<uint64_t>* ids);
  absl::Status CheckWait(const GenerateRequest& request);
  void OnClosed(uint64_t id, const GenerateRequest& request, int32_t generated_tokens);
  void Refuse(const char* why);
  bool WaitUntilEmpty(std::chrono::milliseconds time);

  Parts parts;
  const ExecutorLimits limits;
  const EngineOptions options;
  DrainRate drain_rate;

  // Order of locks: mu, then those inside the loops. No callback holds one when it takes mu.
  std::mutex mu;
  std::condition_variable empty;
  const char* refusing = nullptr;  // why nothing is accepted any more
  TenantPlaces places;  // of answers that are not closed: that run, wait, or have chunks to deliver
  uint64_t last_id = 0;
  int64_t submitted_tokens = 0;  // of all prompts
  std::unordered_map<std::string, Live> live;
  TenantQuotas quotas;

  // Made last, destroyed first: their threads use what is above.
  std::unique_ptr<OutputLoop> output;
  std::unique_ptr<EngineLoop> loop;
};

Engine::Impl::Impl(Parts parts_in, EngineOptions options_in)
    : parts(std::move(parts_in)),
      limits(parts.executor->limits()),
      options(Bounded(options_in, limits)),
      places(options.tenants, options.other_tenants, options.running_max + options.waiting_max),
      quotas(options.tenants, options.other_tenants) {
  OutputLoop::Parts output_parts;
  output_parts.tokenizer = parts.tokenizer;
  output_parts.observer = parts.observer;
  output_parts.on_stop_string = [this](uint64_t id) { loop->Finish(id, FinishReason::kStop); };
  output_parts.on_closed = [this](uint64_t id, const GenerateRequest& request,
                                  int32_t generated_tokens) {
    OnClosed(id, request, generated_tokens);
  };
  output = std::make_unique<OutputLoop>(std::move(output_parts));

  EngineLoop::Parts loop_parts;
  loop_parts.executor = parts.executor.get();
  loop_parts.output = output.get();
  loop_parts.observer = parts.observer;
  loop_parts.refuse_all = [this] { Refuse("the engine has failed"); };
  loop_parts.on_fatal = parts.on_fatal;
  loop = std::make_unique<EngineLoop>(std::move(loop_parts), LoopOptions());
}

EngineLoop::Options Engine::Impl::LoopOptions() const {
  EngineLoop::Options loop_options;
  loop_options.scheduler.running_max = options.running_max;
  loop_options.scheduler.step_tokens = options.step_tokens;
  loop_options.scheduler.end_ids = parts.tokenizer->spec().end_ids;
  loop_options.scheduler.share_prefixes = options.share_prefixes;
  loop_options.scheduler.prefills_max = options.prefills_max;
  loop_options.scheduler.inter_token_target = Seconds(options.inter_token_target);
  loop_options.scheduler.prefill_tokens_min = options.prefill_tokens_min;
  loop_options.scheduler.first_token_target = Seconds(options.first_token_target);
  loop_options.scheduler.line.patience_seconds = Seconds(options.patience);
  loop_options.scheduler.line.tenants = options.tenants;
  loop_options.scheduler.line.other = options.other_tenants;
  loop_options.depth = options.steps_in_flight;
  loop_options.record_bytes = options.record_bytes;
  loop_options.record_path = options.record_path;
  loop_options.slow_step_seconds = Seconds(options.slow_step);
  return loop_options;
}

// Takes places for all answers of the request, or none. Under mu.
absl::Status Engine::Impl::Reserve(const std::shared_ptr<const GenerateRequest>& request,
                                   std::vector<uint64_t>* ids) {
  if (refusing != nullptr) return Unavailable(refusing);
  const Clock::time_point now = Clock::now();
  const bool was_idle = places.taken() == 0;
  SLUICE_RETURN_IF_ERROR(places.Take(request->tenant, request->n, now));
  if (absl::Status status = quotas.Take(*request, now); !status.ok()) {
    places.Return(request->tenant, request->n);
    return status;
  }
  if (was_idle) drain_rate.OnBusy(now);
  submitted_tokens += static_cast<int64_t>(request->prompt.size()) * request->n;
  for (int32_t i = 0; i < request->n; ++i) ids->push_back(++last_id);
  Live& entry = live[request->id];
  entry.cancelled = false;
  entry.sequences.insert(entry.sequences.end(), ids->begin(), ids->end());
  return absl::OkStatus();
}

// Refuses, before anything is computed for it, what would come too late. Under mu.
absl::Status Engine::Impl::CheckWait(const GenerateRequest& request) {
  const Clock::time_point now = Clock::now();
  const bool has_deadline = request.deadline != Clock::time_point::max();
  if (has_deadline && request.deadline <= now)
    return absl::DeadlineExceededError("the request's deadline has passed");
  if (!has_deadline && options.wait_max.count() <= 0) return absl::OkStatus();
  const EngineStats stats = loop->stats();
  const auto work = [&](int64_t tokens) {
    return stats.prefill_rate > 0 ? static_cast<double>(tokens) / stats.prefill_rate : 0;
  };
  // What came since the engine thread last told is before it, too.
  double wait = stats.predicted_wait + work(submitted_tokens - stats.added_tokens);
  // Whoever gives way to others' priorities waits for all of them.
  if (request.priority <= 0) wait *= places.ShareOfWait(request.tenant, options.running_max);
  double limit = std::numeric_limits<double>::infinity();
  if (options.wait_max.count() > 0) limit = Seconds(options.wait_max);
  if (has_deadline) {
    // With nothing before it the estimate of its own work is no reason: much may be in memory.
    const double own = wait > 0 ? work(static_cast<int64_t>(request.prompt.size())) : 0;
    limit = std::min(limit, Seconds(request.deadline - now) - own);
  }
  if (wait <= limit) return absl::OkStatus();
  return ResourceExhausted(absl::StrCat("too many requests: a new one would wait about ", wait,
                                        " s, at most ", std::max(limit, 0.0), " s may it"));
}

void Engine::Impl::OnClosed(uint64_t id, const GenerateRequest& request, int32_t generated_tokens) {
  drain_rate.OnEnded(1, Clock::now());
  std::lock_guard lock(mu);
  const auto it = live.find(request.id);
  std::erase(it->second.sequences, id);
  if (it->second.sequences.empty()) live.erase(it);
  quotas.Return(request, generated_tokens, Clock::now());
  places.Return(request.tenant, 1);
  if (places.taken() == 0) empty.notify_all();
}

void Engine::Impl::Refuse(const char* why) {
  std::lock_guard lock(mu);
  if (refusing == nullptr) refusing = why;
}

bool Engine::Impl::WaitUntilEmpty(std::chrono::milliseconds time) {
  std::unique_lock lock(mu);
  return empty.wait_for(lock, time, [this] { return places.taken() == 0; });
}

Engine::Engine(Parts parts, EngineOptions options)
    : impl_(std::make_unique<Impl>(std::move(parts), options)) {}

Engine::~Engine() {
  impl_->Refuse("the engine is shutting down");
  // Each joins its thread and stays a valid object, since the other's thread may still call it.
  impl_->loop->Stop();
  impl_->output->Stop();
}

absl::Status Engine::Submit(std::shared_ptr<const GenerateRequest> request,
                            std::shared_ptr<OutputSink> sink) {
  SLUICE_RETURN_IF_ERROR(
      ValidateRequest(*request, {impl_->limits.vocabulary, impl_->loop->context_tokens()}));
  // One lock from taking the places to handing over, so that a Cancel or a Drain comes before or
  // after all of it.
  std::lock_guard lock(impl_->mu);
  std::vector<uint64_t> ids;
  SLUICE_RETURN_IF_ERROR(impl_->CheckWait(*request));
  SLUICE_RETURN_IF_ERROR(impl_->Reserve(request, &ids));
  for (int32_t choice = 0; choice < request->n; ++choice) {
    const uint64_t id = ids[static_cast<size_t>(choice)];
    impl_->output->Open(id, request, choice, sink);
    ENGINE_CHECK(impl_->loop->Add(id, request, choice)) << "the places bound the inbox";
  }
  return absl::OkStatus();
}

void Engine::Cancel(const std::string& request_id) {
  std::lock_guard lock(impl_->mu);
  const auto it = impl_->live.find(request_id);
  if (it == impl_->live.end() || it->second.cancelled) return;
  it->second.cancelled = true;
  for (const uint64_t id : it->second.sequences) impl_->loop->Finish(id, FinishReason::kCancelled);
}

bool Engine::Look(size_t sequences_max, std::function<void(EngineState)> see) const {
  return impl_->loop->Look(sequences_max, std::move(see));
}

absl::Status Engine::WriteFlightRecord(const std::string& path) {
  return impl_->loop->WriteRecord(path);
}

EngineStats Engine::stats() const { return impl_->loop->stats(); }

int Engine::AppointRetry(int answers) {
  return impl_->drain_rate.Appoint(answers, stats().ending_rate, Clock::now());
}

bool Engine::Drain(std::chrono::milliseconds grace) {
  impl_->Refuse("the engine is draining");
  if (impl_->WaitUntilEmpty(grace)) return true;
  impl_->loop->FinishAll(FinishReason::kCancelled);
  impl_->WaitUntilEmpty(kCancelWait);
  return false;
}

const Tokenizer& Engine::tokenizer() const { return *impl_->parts.tokenizer; }

int32_t Engine::context_tokens() const { return impl_->loop->context_tokens(); }

}  // namespace sluice::engine
