// The fit of a step's cost: few terms, so every set of them is tried.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "engine/simulate/step_time.h"

namespace sluice::engine {
namespace {

constexpr size_t kTerms = kStepTerms;
constexpr size_t kStepsMin = 16;
constexpr int kRounds = 6;
// Errors beyond so many median errors count for less (Huber 1964).
constexpr double kErrorsMax = 3;
// A set of terms that says the same twice has no pivot above this.
constexpr double kPivotMin = 1e-9;
// More terms must be better by this share.
constexpr double kGainMin = 1e-6;

using Terms = StepTerms;

double Dot(const Terms& a, const Terms& b) {
  double sum = 0;
  for (size_t i = 0; i < kTerms; ++i) sum += a[i] * b[i];
  return sum;
}

// Sums of weighted products of terms and times.
struct Normal {
  std::array<Terms, kTerms> products{};
  Terms right{};
  double squares = 0;

  void Add(const Terms& terms, double seconds, double weight) {
    for (size_t i = 0; i < kTerms; ++i) {
      for (size_t j = 0; j < kTerms; ++j) products[i][j] += weight * terms[i] * terms[j];
      right[i] += weight * terms[i] * seconds;
    }
    squares += weight * seconds * seconds;
  }
  // The sum of weighted squared errors.
  double Error(const Terms& weights) const {
    double error = squares;
    for (size_t i = 0; i < kTerms; ++i) {
      error -= 2 * weights[i] * right[i];
      error += weights[i] * Dot(weights, products[i]);
    }
    return error;
  }
};

// The best weights that use only the terms of `set`; false when they are not determined, or one is
// negative. Elimination (the matrix is positive definite, or it has no solution).
bool Solve(const Normal& normal, unsigned set, Terms* weights) {
  std::array<size_t, kTerms> used{};
  size_t count = 0;
  for (size_t i = 0; i < kTerms; ++i) {
    if ((set >> i & 1) != 0) used[count++] = i;
  }
  std::array<Terms, kTerms> a{};
  Terms b{};
  for (size_t i = 0; i < count; ++i) {
    for (size_t j = 0; j < count; ++j) a[i][j] = normal.products[used[i]][used[j]];
    b[i] = normal.right[used[i]];
  }
  for (size_t k = 0; k < count; ++k) {
    if (a[k][k] <= kPivotMin * normal.products[used[k]][used[k]]) return false;
    for (size_t i = k + 1; i < count; ++i) {
      const double factor = a[i][k] / a[k][k];
      for (size_t j = k; j < count; ++j) a[i][j] -= factor * a[k][j];
      b[i] -= factor * b[k];
    }
  }
  *weights = {};
  for (size_t k = count; k-- > 0;) {
    double value = b[k];
    for (size_t j = k + 1; j < count; ++j) value -= a[k][j] * (*weights)[used[j]];
    (*weights)[used[k]] = value / a[k][k];
    if (value < 0) return false;
  }
  return true;
}

Terms BestWeights(const Normal& normal) {
  Terms best{};
  double least = normal.squares;
  for (unsigned set = 1; set < 1u << kTerms; ++set) {
    Terms weights;
    if (!Solve(normal, set, &weights)) continue;
    const double error = normal.Error(weights);
    if (error >= least * (1 - kGainMin)) continue;
    least = error;
    best = weights;
  }
  return best;
}

}  // namespace

absl::StatusOr<StepCost> FitStepCost(const std::vector<ObservedStep>& observed) {
  if (observed.size() < kStepsMin)
    return InvalidArgument("only " + std::to_string(observed.size()) + " steps; a fit needs " +
                           std::to_string(kStepsMin));
  Terms weights{};
  std::vector<double> errors(observed.size());  // relative ones
  double bound = 0;                             // 0: the first round knows no error yet
  for (int round = 0; round < kRounds; ++round) {
    Normal normal;
    for (size_t i = 0; i < observed.size(); ++i) {
      const Terms terms = TermsOf(observed[i].work);
      // Relative to what is expected: relative to the real time, short ones would weigh too much.
      const double expected = round == 0 ? observed[i].seconds : Dot(weights, terms);
      double weight = 1 / std::max(1e-18, expected * expected);
      if (bound > 0 && errors[i] > bound) weight *= bound / errors[i];
      normal.Add(terms, observed[i].seconds, weight);
    }
    weights = BestWeights(normal);
    for (size_t i = 0; i < observed.size(); ++i) {
      const double expected = std::max(1e-9, Dot(weights, TermsOf(observed[i].work)));
      errors[i] = std::abs(observed[i].seconds / expected - 1);
    }
    bound = kErrorsMax * MedianOf(errors);
  }
  const Terms& scale = kStepTermScale;
  return StepCost{weights[0] * scale[0], weights[1] * scale[1], weights[2] * scale[2],
                  weights[3] * scale[3], weights[4] * scale[4]};
}

}  // namespace sluice::engine
