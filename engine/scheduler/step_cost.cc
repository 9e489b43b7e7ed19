#include "engine/scheduler/step_cost.h"

#include <algorithm>
#include <cmath>

namespace sluice::engine {
namespace {

constexpr double kSecondsMax = 1e4;  // what takes longer is no step
// A step's weight halves in about 700 steps.
constexpr double kForget = 0.999;
// Of the means of errors.
constexpr double kRecent = 0.02;
// Errors beyond so many mean errors count as that many.
constexpr double kErrorsMax = 4;
// Keeps directions that are not excited from growing without end.
constexpr double kCovarianceMax = 1e6;

}  // namespace

StepCostModel::StepCostModel() {
  for (int i = 0; i < kTerms; ++i) covariance_[i][i] = 1e3;
}

// Terms of like size, so that one starting covariance suits all.
StepCostModel::Terms StepCostModel::TermsOf(const StepWork& work) {
  return {1.0, work.tokens / 64.0, work.attended / 65536.0, work.sequences / 16.0};
}

double StepCostModel::Dot(const Terms& terms) const {
  double sum = 0;
  for (int i = 0; i < kTerms; ++i) sum += weights_[i] * terms[i];
  return sum;
}

double StepCostModel::Predict(const StepWork& work) const {
  return ready() ? std::max(0.0, Dot(TermsOf(work))) : 0;
}

void StepCostModel::Observe(const StepWork& work, double seconds) {
  if (!(seconds > 0 && seconds < kSecondsMax)) return;
  const Terms terms = TermsOf(work);
  const double error = seconds - Dot(terms);
  if (ready()) {
    relative_error_ += kRecent * (std::abs(error) / seconds - relative_error_);
  }
  double bounded = error;
  if (ready()) {
    const double most = kErrorsMax * std::max(deviation_, 1e-6);
    bounded = std::clamp(error, -most, most);
  }
  deviation_ += (observed_ < kObservedMin ? 0.25 : kRecent) * (std::abs(bounded) - deviation_);
  ++observed_;

  Terms gain{};
  double norm = kForget;
  for (int i = 0; i < kTerms; ++i) {
    for (int j = 0; j < kTerms; ++j) gain[i] += covariance_[i][j] * terms[j];
    norm += terms[i] * gain[i];
  }
  for (int i = 0; i < kTerms; ++i) weights_[i] += gain[i] / norm * bounded;
  double trace = 0;
  for (int i = 0; i < kTerms; ++i) {
    for (int j = 0; j < kTerms; ++j) {
      if (j <= i) {
        const double next = (covariance_[i][j] - gain[i] * gain[j] / norm) / kForget;
        covariance_[i][j] = covariance_[j][i] = next;
      }
    }
    trace += covariance_[i][i];
  }
  if (trace <= kCovarianceMax) return;
  for (Terms& row : covariance_)
    for (double& value : row) value *= kCovarianceMax / trace;
}

}  // namespace sluice::engine
