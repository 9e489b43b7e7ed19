#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <span>

#include "kernels/check.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/random.h"

namespace sluice::kernels {
namespace {

// How far below the largest logit, in temperatures, candidates are taken at first, and how much
// farther each time they were not enough. Most answers lie within the first range, and sorting far
// more candidates than needed costs more than looking once more.
constexpr double kFirstRange = 6.0, kNextRange = 1.25;

}  // namespace

// Draws from one row. Candidates are taken in order of their logits, but of the whole vocabulary
// only as many are ever sorted as the answer needs: those above a threshold, which is lowered until
// they are enough.
class RowSampler {
 public:
  RowSampler(CpuOps& ops, int worker, std::span<const float> logits)
      : kernels_(ops.kernels_),
        candidates_(ops.candidates_[static_cast<size_t>(worker)]),
        ids_(ops.candidate_ids_[static_cast<size_t>(worker)]),
        logits_(logits) {}

  int32_t Run(const SamplingBatch& batch, int64_t s) {
    const int32_t best = kernels_.argmax(logits_.data(), size());
    temperature_ = batch.temperature[s];
    if (best < 0 || temperature_ == 0.0f) return best;
    largest_ = logits_[static_cast<size_t>(best)];
    const double u = UniformDraw(batch.seed[s], batch.choice[s], batch.position[s], 0);
    const double top_p = batch.top_p[s], min_p = batch.min_p[s];
    if (batch.top_k[s] > 0) {
      TakeTopK(batch.top_k[s]);
      if (top_p < 1.0) KeepPrefix(top_p * Sum());
    } else if (top_p < 1.0) {
      TakeUntil(top_p * SumOfAll());
    } else if (min_p > 0.0) {
      TakeMinP(min_p);
    } else {
      return DrawFromAll(u);
    }
    if (min_p > 0.0) KeepMinP(min_p);
    return Draw(u * Sum());
  }

 private:
  using Candidate = CpuOps::Candidate;

  int64_t size() const { return static_cast<int64_t>(logits_.size()); }

  // All candidates with a logit of at least largest - below, in order. Whether that is all there
  // are.
  bool TakeAbove(double below) {
    const double wanted = double{largest_} - below;
    const float threshold = wanted > -double{FLT_MAX} ? static_cast<float>(wanted) : -FLT_MAX;
    ids_.resize(logits_.size());
    const int64_t found = kernels_.collect(logits_.data(), size(), threshold, ids_.data(), size());
    candidates_.clear();
    for (int64_t i = 0; i < found; ++i) {
      const int32_t id = ids_[static_cast<size_t>(i)];
      candidates_.push_back({logits_[static_cast<size_t>(id)], id, 0.0});
    }
    return threshold == -FLT_MAX;
  }

  void SortAndWeigh() {
    std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
      return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
    });
    for (Candidate& c : candidates_) {
      c.weight = std::exp((c.logit - double{largest_}) / double{temperature_});
    }
  }

  void TakeTopK(int32_t k) {
    const auto wanted = static_cast<size_t>(k);
    for (double below = 4.0; !TakeAbove(below) && candidates_.size() < wanted; below *= 2) {
    }
    if (candidates_.size() > wanted) {
      std::nth_element(candidates_.begin(), candidates_.begin() + k - 1, candidates_.end(),
                       [](const Candidate& a, const Candidate& b) {
                         return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
                       });
      candidates_.resize(wanted);
    }
    SortAndWeigh();
  }

  // The shortest prefix of all candidates whose weights add up to `wanted`.
  void TakeUntil(double wanted) {
    for (double below = kFirstRange * temperature_;; below *= kNextRange) {
      const bool all = TakeAbove(below);
      SortAndWeigh();
      if (KeepPrefix(wanted) || all) return;
    }
  }

  void TakeMinP(double min_p) {
    // A little more than needed: KeepMinP decides.
    TakeAbove((0.001 - std::log(min_p)) * temperature_ * 1.001);
    SortAndWeigh();
  }

  int32_t DrawFromAll(double u) {
    const double threshold = u * SumOfAll();
    for (double below = kFirstRange * temperature_;; below *= kNextRange) {
      const bool all = TakeAbove(below);
      SortAndWeigh();
      double sum = 0.0;
      for (const Candidate& c : candidates_) {
        sum += c.weight;
        if (sum > threshold) return c.id;
      }
      if (all) return candidates_.back().id;
    }
  }

  double SumOfAll() const {
    return kernels_.sum_of_weights(logits_.data(), size(), largest_, temperature_);
  }
  double Sum() const {
    double sum = 0.0;
    for (const Candidate& c : candidates_) sum += c.weight;
    return sum;
  }

  bool KeepPrefix(double wanted) {
    double sum = 0.0;
    for (size_t i = 0; i < candidates_.size(); ++i) {
      sum += candidates_[i].weight;
      if (sum >= wanted) {
        candidates_.resize(i + 1);
        return true;
      }
    }
    return false;
  }

  void KeepMinP(double min_p) {
    while (candidates_.size() > 1 && candidates_.back().weight < min_p) candidates_.pop_back();
  }

  int32_t Draw(double threshold) const {
    double sum = 0.0;
    for (const Candidate& c : candidates_) {
      sum += c.weight;
      if (sum > threshold) return c.id;
    }
    return candidates_.back().id;
  }

  const KernelTable& kernels_;
  std::vector<Candidate>& candidates_;
  std::vector<int32_t>& ids_;
  std::span<const float> logits_;
  float temperature_ = 0.0f, largest_ = 0.0f;
};

void CpuOps::DoApplyLogitRules(TensorView logits, const SamplingBatch& batch) {
  for (int64_t s = 0; s < batch.rows; ++s) {
    float* row = static_cast<float*>(logits.data) + s * logits.stride;
    const auto at = [&](int32_t token) -> float& {
      SLUICE_CHECK(token >= 0 && token < logits.cols()) << "token " << token;
      return row[token];
    };
    for (int32_t i = batch.history_begin[s]; i < batch.history_begin[s + 1]; ++i) {
      float& logit = at(batch.history_token[i]);
      const int32_t generated = batch.history_generated[i];
      logit = logit > 0.0f ? logit / batch.repetition[s] : logit * batch.repetition[s];
      logit -= batch.frequency[s] * static_cast<float>(generated);
      if (generated > 0) logit -= batch.presence[s];
    }
    for (int32_t i = batch.bias_begin[s]; i < batch.bias_begin[s + 1]; ++i) {
      at(batch.bias_token[i]) += batch.bias_value[i];
    }
  }
}

void CpuOps::DoSample(TensorView ids, TensorView logits, const SamplingBatch& batch) {
  const double cost = (batch.all_greedy ? 0.1 : 1.5) * static_cast<double>(logits.cols());
  Parallel(batch.rows, cost, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t s = begin; s < end; ++s) {
      const float* row = static_cast<const float*>(logits.data) + s * logits.stride;
      RowSampler sampler(*this, worker, {row, static_cast<size_t>(logits.cols())});
      static_cast<int32_t*>(ids.data)[s] = sampler.Run(batch, s);
    }
  });
}

}  // namespace sluice::kernels
