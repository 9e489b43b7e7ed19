#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "kernels/check.h"
#include "kernels/random.h"
#include "kernels/reference/reference_ops.h"

namespace sluice::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

bool CanSample(std::span<const float> logits) {
  bool any = false;
  for (const float logit : logits) {
    if (std::isnan(logit) || logit == kInfinity) return false;
    any = any || logit > -kInfinity;
  }
  return any;
}

int32_t Greedy(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

struct Candidate {
  int32_t id;
  double weight;
};

// Every token that can be drawn, the likeliest first, equal ones by id.
std::vector<Candidate> Candidates(std::span<const float> logits, double temperature) {
  std::vector<Candidate> candidates;
  const double largest = *std::max_element(logits.begin(), logits.end());
  for (size_t id = 0; id < logits.size(); ++id) {
    if (logits[id] == -kInfinity) continue;
    const double weight = std::exp((logits[id] - largest) / temperature);
    candidates.push_back({static_cast<int32_t>(id), weight});
  }
  std::stable_sort(candidates.begin(), candidates.end(), [&](const auto& a, const auto& b) {
    return logits[static_cast<size_t>(a.id)] > logits[static_cast<size_t>(b.id)];
  });
  return candidates;
}

double SumOfWeights(const std::vector<Candidate>& candidates) {
  return std::accumulate(candidates.begin(), candidates.end(), 0.0,
                         [](double sum, const Candidate& c) { return sum + c.weight; });
}

// Nucleus sampling (Holtzman et al. 2020).
void KeepTopP(std::vector<Candidate>& candidates, double top_p) {
  const double wanted = top_p * SumOfWeights(candidates);
  double sum = 0.0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    sum += candidates[i].weight;
    if (sum >= wanted) {
      candidates.resize(i + 1);
      return;
    }
  }
}

// Min-p sampling (Nguyen et al. 2024): relative to the likeliest, whose weight is 1.
void KeepMinP(std::vector<Candidate>& candidates, double min_p) {
  while (candidates.size() > 1 && candidates.back().weight < min_p) candidates.pop_back();
}

int32_t Draw(const std::vector<Candidate>& candidates, double u) {
  const double threshold = u * SumOfWeights(candidates);
  double sum = 0.0;
  for (const Candidate& candidate : candidates) {
    sum += candidate.weight;
    if (sum > threshold) return candidate.id;
  }
  return candidates.back().id;
}

}  // namespace

void ReferenceOps::DoApplyLogitRules(TensorView logits, const SamplingBatch& batch) {
  const auto at = [&](int64_t row, int32_t token) -> float& {
    SLUICE_CHECK(token >= 0 && token < logits.cols()) << "token " << token;
    return Row(logits, row)[token];
  };
  for (int64_t s = 0; s < batch.rows; ++s) {
    for (int32_t i = batch.history_begin[s]; i < batch.history_begin[s + 1]; ++i) {
      float& logit = at(s, batch.history_token[i]);
      const int32_t generated = batch.history_generated[i];
      logit = logit > 0.0f ? logit / batch.repetition[s] : logit * batch.repetition[s];
      logit -= batch.frequency[s] * static_cast<float>(generated);
      if (generated > 0) logit -= batch.presence[s];
    }
    for (int32_t i = batch.bias_begin[s]; i < batch.bias_begin[s + 1]; ++i) {
      at(s, batch.bias_token[i]) += batch.bias_value[i];
    }
  }
}

void ReferenceOps::DoSample(TensorView ids, TensorView logits, const SamplingBatch& batch) {
  for (int64_t s = 0; s < batch.rows; ++s) {
    int32_t& id = static_cast<int32_t*>(ids.data)[s];
    const std::span<const float> row(Row(logits, s), static_cast<size_t>(logits.cols()));
    if (!CanSample(row)) {
      id = -1;
      continue;
    }
    if (batch.temperature[s] == 0.0f) {
      id = Greedy(row);
      continue;
    }
    std::vector<Candidate> candidates = Candidates(row, batch.temperature[s]);
    const int32_t top_k = batch.top_k[s];
    if (top_k > 0 && static_cast<size_t>(top_k) < candidates.size()) {
      candidates.resize(static_cast<size_t>(top_k));
    }
    if (batch.top_p[s] < 1.0f) KeepTopP(candidates, batch.top_p[s]);
    if (batch.min_p[s] > 0.0f) KeepMinP(candidates, batch.min_p[s]);
    id = Draw(candidates, UniformDraw(batch.seed[s], batch.choice[s], batch.position[s], 0));
  }
}

}  // namespace sluice::kernels
