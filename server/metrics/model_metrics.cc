#include "server/metrics/model_metrics.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "engine/base/log_text.h"
#include "server/metrics/buckets.h"

namespace sluice::server {
namespace {

using engine::FinishReason;
using engine::Seconds;

bool Happened(engine::Clock::time_point at) { return at != engine::Clock::time_point{}; }

// vLLM's names for how an answer ended.
constexpr const char* kReasons[] = {"stop", "length", "abort", "error"};

size_t ReasonIndex(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return 0;
    case FinishReason::kLength:
      return 1;
    case FinishReason::kCancelled:
      return 2;
    default:
      return 3;
  }
}

}  // namespace

// A figure's name after sluice_ and after vllm:, null where vLLM has no such figure.
struct ModelMetrics::Name {
  const char* ours;
  const char* vllm;
  const char* help;
};

ModelMetrics::ModelMetrics(const ServedModel* model, bool vllm_names)
    : model_(*model),
      // Prometheus refuses a whole page for one byte that is not UTF-8.
      label_{"model_name", engine::ValidUtf8(model->facts.name)},
      vllm_names_(vllm_names),
      first_token_(FirstTokenEdges()),
      next_token_(InterTokenEdges()),
      token_mean_(InterTokenEdges()),
      whole_(RequestEdges()),
      queued_(RequestEdges()),
      prefill_(RequestEdges()),
      decode_(RequestEdges()),
      inference_(RequestEdges()),
      prompt_size_(TokenCountEdges(model->facts.context_tokens)),
      answer_size_(TokenCountEdges(model->facts.context_tokens)),
      longest_answer_(TokenCountEdges(model->facts.context_tokens)),
      answer_limit_(TokenCountEdges(model->facts.context_tokens)),
      answers_asked_(AnswerCountEdges()),
      step_seconds_(StepEdges()),
      step_tokens_(StepTokenEdges()),
      step_sequences_(StepSequenceEdges()) {}

void ModelMetrics::OnFirstToken(double seconds_since_arrival, double seconds_queued) {
  generated_.fetch_add(1, std::memory_order_relaxed);
  first_token_.Observe(seconds_since_arrival);
  queued_.Observe(seconds_queued);
}

void ModelMetrics::OnNextToken(double seconds_since_last) {
  generated_.fetch_add(1, std::memory_order_relaxed);
  next_token_.Observe(seconds_since_last);
}

void ModelMetrics::OnDiscardedToken() { discarded_.fetch_add(1, std::memory_order_relaxed); }

void ModelMetrics::OnFinished(const engine::FinishedAnswer& answer) {
  endings_[ReasonIndex(answer.reason)].fetch_add(1, std::memory_order_relaxed);
  CountRequestOf(answer);
  const engine::SequenceTimes& times = answer.times;
  prompt_size_.Observe(static_cast<double>(answer.request->prompt.size()));
  if (!Happened(times.first_token)) {
    // It left the queue, and was cut off in its prompt.
    if (Happened(times.scheduled)) queued_.Observe(Seconds(times.scheduled - times.arrival));
    return;
  }
  if (answer.reason != FinishReason::kStop && answer.reason != FinishReason::kLength) return;
  const double decode = Seconds(times.last_token - times.first_token);
  answer_size_.Observe(answer.generated_tokens);
  whole_.Observe(Seconds(times.last_token - times.arrival));
  prefill_.Observe(Seconds(times.first_token - times.scheduled));
  decode_.Observe(decode);
  inference_.Observe(Seconds(times.last_token - times.scheduled));
  if (answer.generated_tokens > 1) token_mean_.Observe(decode / (answer.generated_tokens - 1));
}

// Once a request, whatever its n: with its last answer.
void ModelMetrics::CountRequestOf(const engine::FinishedAnswer& answer) {
  const engine::GenerateRequest& request = *answer.request;
  int32_t longest = answer.generated_tokens;
  if (request.n > 1) {
    Open& open = open_.try_emplace(&request, Open{request.n, 0}).first->second;
    open.longest = longest = std::max(open.longest, answer.generated_tokens);
    if (--open.left > 0) return;
    open_.erase(&request);
  }
  longest_answer_.Observe(longest);
  answers_asked_.Observe(request.n);
  answer_limit_.Observe(request.stop.max_tokens);
}

void ModelMetrics::OnStep(const engine::StepFacts& step) {
  step_seconds_.Observe(step.seconds);
  step_tokens_.Observe(step.tokens);
  step_sequences_.Observe(step.sequences);
}

void ModelMetrics::Number(FamilyList* out, Type type, const Name& name, double value,
                          FamilyList::Labels labels) const {
  labels.push_back(label_);
  const auto put = [&](const std::string& full) {
    if (type == Type::kCounter) {
      out->Counter(full, name.help, value, labels);
    } else {
      out->Gauge(full, name.help, value, labels);
    }
  };
  if (name.ours != nullptr) put(std::string("sluice_") + name.ours);
  if (!vllm_names_ || name.vllm == nullptr) return;
  labels.push_back({"engine", "0"});
  put(std::string("vllm:") + name.vllm);
}

void ModelMetrics::Buckets(FamilyList* out, const Name& name,
                           const AtomicHistogram& histogram) const {
  FamilyList::Labels labels = {label_};
  auto value = histogram.Read();
  out->Histogram(std::string("sluice_") + name.ours, name.help, value, labels);
  if (!vllm_names_ || name.vllm == nullptr) return;
  labels.push_back({"engine", "0"});
  out->Histogram(std::string("vllm:") + name.vllm, name.help, std::move(value), std::move(labels));
}

void ModelMetrics::AppendTo(FamilyList* out) const {
  AppendEngine(out);
  AppendEndings(out);
  AppendLatencies(out);
  AppendSizes(out);
}

void ModelMetrics::AppendEngine(FamilyList* out) const {
  const engine::Engine* engine = model_.engine.load();
  const engine::EngineStats stats = engine == nullptr ? engine::EngineStats() : engine->stats();
  const auto gauge = [&](const Name& name, double value) {
    Number(out, Type::kGauge, name, value);
  };
  const auto counter = [&](const Name& name, uint64_t value) {
    Number(out, Type::kCounter, name, static_cast<double>(value));
  };
  const auto total = static_cast<double>(stats.kv_blocks_total);
  gauge({"num_requests_running", "num_requests_running", "Answers that have a place in the batch."},
        static_cast<double>(stats.requests_running));
  gauge({"num_requests_waiting", "num_requests_waiting", "Answers that wait for a place."},
        static_cast<double>(stats.requests_waiting));
  gauge({"kv_cache_usage_perc", "kv_cache_usage_perc", "Share of KV blocks in use, 0 to 1."},
        total > 0 ? static_cast<double>(stats.kv_blocks_used) / total : 0);
  gauge({"kv_cache_blocks", nullptr, "KV blocks that there are."}, total);
  if (engine != nullptr) {
    Number(out, Type::kGauge,
           {"cache_config_info", "cache_config_info", "Always 1; the KV cache is in the labels."},
           1,
           {{"block_size", std::to_string(stats.kv_block_size)},
            {"num_gpu_blocks", std::to_string(stats.kv_blocks_total)},
            {"cache_dtype", model_.facts.cache_dtype}});
  }
  const auto count = [](int64_t value) { return static_cast<uint64_t>(value); };
  counter(
      {"prompt_tokens_total", "prompt_tokens_total", "Prompt tokens taken in, computed or found."},
      count(stats.prompt_tokens));
  counter({"generation_tokens_total", "generation_tokens_total", "Tokens of answers."},
          generated_.load(std::memory_order_relaxed));
  counter({"discarded_tokens_total", nullptr,
           "Tokens computed for an answer that had ended: by a stop string, or its client left."},
          count(stats.discarded_tokens) + discarded_.load(std::memory_order_relaxed));
  counter({"num_preemptions_total", "num_preemptions_total", "Answers set back to make room."},
          count(stats.preemptions));
  counter({"recomputed_tokens_total", nullptr, "Tokens computed again after a preemption."},
          count(stats.recomputed_tokens));
  counter({"engine_steps_total", nullptr, "Steps planned."}, count(stats.steps));
  counter({"prefix_cache_queries_total", "prefix_cache_queries_total",
           "Prompt tokens looked for among those in memory."},
          count(stats.prefix_query_tokens));
  counter({"prefix_cache_hits_total", "prefix_cache_hits_total",
           "Prompt tokens found in memory, and not computed."},
          count(stats.prefix_hit_tokens));
  gauge({"kv_cache_kept_blocks", nullptr,
         "KV blocks kept for prompts that begin alike; they count as free."},
        static_cast<double>(stats.kv_blocks_idle));
  counter({"deadlines_passed_total", nullptr, "Answers ended by their request's deadline."},
          count(stats.deadlines_passed));
  gauge({"predicted_wait_seconds", nullptr,
         "What a request that comes now would wait for its first step."},
        stats.predicted_wait);
  gauge({"prefill_budget_tokens", nullptr, "Tokens that the last step might spend on prompts."},
        static_cast<double>(stats.prefill_budget));
  gauge({"step_time_error_ratio", nullptr,
         "Mean error of predicted step times, as a share of the real ones."},
        stats.step_cost_error);
  gauge({"inter_token_margin_ratio", nullptr,
         "Share of an inter-token target that is kept free, so that few steps are late."},
        stats.step_margin);
}

void ModelMetrics::AppendEndings(FamilyList* out) const {
  for (size_t i = 0; i < endings_.size(); ++i) {
    Number(out, Type::kCounter,
           {"request_success_total", "request_success_total", "Answers by the way they ended."},
           static_cast<double>(endings_[i].load(std::memory_order_relaxed)),
           {{"finished_reason", kReasons[i]}});
  }
}

void ModelMetrics::AppendLatencies(FamilyList* out) const {
  const auto both = [&](const char* name, const char* help, const AtomicHistogram& histogram) {
    Buckets(out, {name, name, help}, histogram);
  };
  both("time_to_first_token_seconds", "From a request's arrival to an answer's first token.",
       first_token_);
  both("inter_token_latency_seconds", "Between two tokens of one answer.", next_token_);
  both("request_time_per_output_token_seconds",
       "Mean time between the tokens of one complete answer.", token_mean_);
  both("e2e_request_latency_seconds",
       "From a request's arrival to the last token of a complete answer.", whole_);
  both("request_queue_time_seconds", "From a request's arrival to an answer's first step.",
       queued_);
  both("request_prefill_time_seconds",
       "From the first step to the first token of a complete answer.", prefill_);
  both("request_decode_time_seconds", "From the first to the last token of a complete answer.",
       decode_);
  both("request_inference_time_seconds",
       "From the first step to the last token of a complete answer.", inference_);
}

void ModelMetrics::AppendSizes(FamilyList* out) const {
  const auto both = [&](const char* name, const char* help, const AtomicHistogram& histogram) {
    Buckets(out, {name, name, help}, histogram);
  };
  both("request_prompt_tokens", "Prompt tokens of each answer.", prompt_size_);
  both("request_generation_tokens", "Tokens of each complete answer.", answer_size_);
  both("request_max_num_generation_tokens", "Tokens of each request's longest answer.",
       longest_answer_);
  both("request_params_max_tokens", "Tokens that each request allowed its answers.", answer_limit_);
  both("request_params_n", "Answers that each request asked for.", answers_asked_);
  // vLLM's name has the ending of a counter, which Prometheus' own check refuses.
  Buckets(out, {"iteration_tokens", "iteration_tokens_total", "Tokens computed in one step."},
          step_tokens_);
  Buckets(out, {"step_sequences", nullptr, "Sequences in one step."}, step_sequences_);
  Buckets(out, {"step_duration_seconds", nullptr, "Time that one step takes."}, step_seconds_);
}

}  // namespace sluice::server
