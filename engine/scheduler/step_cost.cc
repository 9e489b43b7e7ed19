#include "engine/scheduler/step_cost.h"

#include <algorithm>
#include <cmath>

namespace sluice::engine {
namespace {

// A step's weight halves in about 700 steps.
constexpr double kForget = 0.999;
// Of the pace: followed within some twenty steps.
constexpr double kPaceRecent = 0.05;
constexpr double kPaceMin = 0.5, kPaceMax = 2.0;
// Of the means of errors.
constexpr double kRecent = 0.02;
// Errors beyond so many mean errors count as that many.
constexpr double kErrorsMax = 4;
// Keeps directions that are not excited from growing without end.
constexpr double kCovarianceMax = 1e6;

}  // namespace

StepCostModel::StepCostModel() {
  // Terms are of like size, so one starting covariance suits all.
  for (int i = 0; i < kStepTerms; ++i) covariance_[i][i] = 1e3;
}

double StepCostModel::Dot(const StepTerms& terms) const {
  double sum = 0;
  for (int i = 0; i < kStepTerms; ++i) sum += weights_[i] * terms[i];
  return sum;
}

double StepCostModel::Predict(const StepWork& work) const {
  return ready() ? std::max(0.0, pace_ * Dot(TermsOf(work))) : 0;
}

void StepCostModel::Observe(const StepWork& work, double seconds) {
  if (!(seconds > 0 && seconds < kStepSecondsMax)) return;
  const StepTerms terms = TermsOf(work);
  const double usual = Dot(terms);
  const double error = seconds - pace_ * usual;
  if (ready()) {
    relative_error_ += kRecent * (std::abs(error) / seconds - relative_error_);
  }
  double bounded = error;
  if (ready()) {
    const double most = kErrorsMax * std::max(deviation_, 1e-6);
    bounded = std::clamp(error, -most, most);
  }
  deviation_ += (observed_ < kObservedMin ? 0.25 : kRecent) * (std::abs(bounded) - deviation_);
  const double unusual = (pace_ - 1) * usual + bounded;
  if (ready() && usual > 0)
    pace_ = std::clamp(pace_ + kPaceRecent * bounded / usual, kPaceMin, kPaceMax);
  ++observed_;

  StepTerms gain{};
  double norm = kForget;
  for (int i = 0; i < kStepTerms; ++i) {
    for (int j = 0; j < kStepTerms; ++j) gain[i] += covariance_[i][j] * terms[j];
    norm += terms[i] * gain[i];
  }
  for (int i = 0; i < kStepTerms; ++i) weights_[i] += gain[i] / norm * unusual;
  double trace = 0;
  for (int i = 0; i < kStepTerms; ++i) {
    for (int j = 0; j < kStepTerms; ++j) {
      if (j <= i) {
        const double next = (covariance_[i][j] - gain[i] * gain[j] / norm) / kForget;
        covariance_[i][j] = covariance_[j][i] = next;
      }
    }
    trace += covariance_[i][i];
  }
  if (trace <= kCovarianceMax) return;
  for (StepTerms& row : covariance_)
    for (double& value : row) value *= kCovarianceMax / trace;
}

}  // namespace sluice::engine
