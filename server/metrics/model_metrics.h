#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "engine/stats.h"
#include "server/metrics/atomic_histogram.h"
#include "server/metrics/family_list.h"
#include "server/models/served_model.h"

namespace sluice::server {

// One model's counters and histograms, fed by its engine, and its gauges, read from the engine's
// published snapshot. Nothing here takes a lock.
//
// What is counted:
//   - One observation an answer: a request with n = 3 has three times to first token.
//   - Times to the first token, between tokens, and in the queue: of every answer that came so far,
//     also if it was cancelled or failed later.
//   - Durations and token counts of whole answers (e2e, prefill, decode, inference, time per output
//     token, generation tokens): of answers that ended by themselves (stop or length). One that was
//     cut off says nothing of how long answers take.
//   - generation_tokens_total: the tokens that answers consist of, the same that `usage` tells.
//     What the engine computed beyond (in a step already under way when a stop string was found or
//     the client left) is in discarded_tokens_total.
//   - prompt_tokens_total: prompt tokens taken in, computed or found in memory (those are in
//     prefix_cache_hits_total, too); each of n answers takes in its own.
class ModelMetrics final : public engine::EngineObserver {
 public:
  // `model` outlives the metrics. `vllm_names`: all that vLLM has goes out under its names, too.
  ModelMetrics(const ServedModel* model, bool vllm_names);

  void OnFirstToken(double seconds_since_arrival, double seconds_queued) override;
  void OnNextToken(double seconds_since_last) override;
  void OnFinished(const engine::FinishedAnswer& answer) override;
  void OnDiscardedToken() override;
  void OnStep(const engine::StepFacts& step) override;

  void AppendTo(FamilyList* out) const;

 private:
  struct Name;
  enum class Type { kCounter, kGauge };
  void Number(FamilyList* out, Type type, const Name& name, double value,
              FamilyList::Labels labels = {}) const;
  void Buckets(FamilyList* out, const Name& name, const AtomicHistogram& histogram) const;
  void AppendEngine(FamilyList* out) const;
  void AppendEndings(FamilyList* out) const;
  void AppendLatencies(FamilyList* out) const;
  void AppendSizes(FamilyList* out) const;
  void CountRequestOf(const engine::FinishedAnswer& answer);

  const ServedModel& model_;
  const prometheus::ClientMetric::Label label_;
  const bool vllm_names_;

  AtomicHistogram first_token_, next_token_, token_mean_;
  AtomicHistogram whole_, queued_, prefill_, decode_, inference_;
  AtomicHistogram prompt_size_, answer_size_, longest_answer_, answer_limit_, answers_asked_;
  AtomicHistogram step_seconds_, step_tokens_, step_sequences_;
  std::atomic<uint64_t> generated_{0};
  std::atomic<uint64_t> discarded_{0};
  std::array<std::atomic<uint64_t>, 4> endings_{};  // by kReasons

  // Requests of more than one answer that have some to come. Output thread.
  struct Open {
    int32_t left = 0;
    int32_t longest = 0;
  };
  std::unordered_map<const engine::GenerateRequest*, Open> open_;
};

}  // namespace sluice::server
