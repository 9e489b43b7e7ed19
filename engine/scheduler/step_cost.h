#pragma once

#include <array>
#include <cstdint>

namespace sluice::engine {

// What a step's time depends on.
struct StepWork {
  int32_t sequences = 0;
  int32_t tokens = 0;
  double attended = 0;  // positions attended, summed over the tokens
};

// Learns, step by step, how long a step takes: a linear function of StepWork, fitted by recursive
// least squares with forgetting (Ljung, Soderstrom 1983), whose weight for a step is cut when the
// step took much longer or shorter than others would have it (Huber 1964): a host that stalls once
// teaches nothing. Pure arithmetic, so the same steps give the same model. Engine thread only.
class StepCostModel {
 public:
  StepCostModel();

  void Observe(const StepWork& work, double seconds);
  // Seconds; 0 until enough steps were seen.
  double Predict(const StepWork& work) const;
  bool ready() const { return observed_ >= kObservedMin; }
  // The mean of |predicted - real| / real over the last steps or so; predictions made beforehand.
  double relative_error() const { return relative_error_; }
  // The mean of |predicted - real|, seconds; of strays, only a part.
  double mean_error() const { return deviation_; }
  int64_t observed() const { return observed_; }

  static constexpr int64_t kObservedMin = 16;

 private:
  static constexpr int kTerms = 4;
  using Terms = std::array<double, kTerms>;
  static Terms TermsOf(const StepWork& work);
  double Dot(const Terms& terms) const;

  Terms weights_{};
  std::array<Terms, kTerms> covariance_{};
  double deviation_ = 0;  // mean |error|, seconds
  double relative_error_ = 0;
  int64_t observed_ = 0;
};

}  // namespace sluice::engine
