#pragma once

#include <array>
#include <cstdint>

namespace sluice::engine {

// What a step's time depends on.
struct StepWork {
  int32_t sequences = 0;
  int32_t tokens = 0;
  double attended = 0;  // positions attended, summed over the tokens: arithmetic
  double context = 0;   // the same, summed over the sequences: keys and values to be read

  // One more sequence: `count` tokens from `first_position` on, each of which attends to those
  // before it and to itself.
  void Add(int32_t first_position, int32_t count) {
    ++sequences;
    tokens += count;
    attended += static_cast<double>(count) * (first_position + (count + 1) / 2.0);
    context += first_position + count;
  }
};

// What a step's time is linear in, its coefficients being of like size.
inline constexpr int kStepTerms = 5;
using StepTerms = std::array<double, kStepTerms>;
inline constexpr StepTerms kStepTermScale = {1.0, 1.0 / 64, 1.0 / 65536, 1.0 / 16, 1.0 / 4096};
inline StepTerms TermsOf(const StepWork& work) {
  return {kStepTermScale[0], kStepTermScale[1] * work.tokens, kStepTermScale[2] * work.attended,
          kStepTermScale[3] * work.sequences, kStepTermScale[4] * work.context};
}

inline constexpr double kStepSecondsMax = 1e4;  // what takes longer is no step

// Learns, step by step, how long a step takes: a linear function of StepWork, fitted by recursive
// least squares with forgetting (Ljung, Soderstrom 1983), whose weight for a step is cut when the
// step took much longer or shorter than others would have it (Huber 1964): a host that stalls once
// teaches nothing. What steps of late took more or less than that, in proportion, is their pace,
// which is followed sooner: a host that moves its processors changes it from one step to the next.
// Pure arithmetic, so the same steps give the same model. Engine thread only.
class StepCostModel {
 public:
  StepCostModel();

  void Observe(const StepWork& work, double seconds);
  // Seconds; 0 until enough steps were seen.
  double Predict(const StepWork& work) const;
  bool ready() const { return observed_ >= kObservedMin; }
  // The mean of |predicted - real| / real over the last steps or so; predictions made beforehand.
  double relative_error() const { return relative_error_; }
  int64_t observed() const { return observed_; }

  static constexpr int64_t kObservedMin = 16;

 private:
  double Dot(const StepTerms& terms) const;

  StepTerms weights_{};
  std::array<StepTerms, kStepTerms> covariance_{};
  double pace_ = 1;
  double deviation_ = 0;  // mean |error|, seconds
  double relative_error_ = 0;
  int64_t observed_ = 0;
};

}  // namespace sluice::engine
