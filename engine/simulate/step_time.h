#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/base/status.h"
#include "engine/plan/step_plan.h"
#include "engine/scheduler/step_cost.h"
#include "engine/simulate/samples.h"

namespace sluice::engine {

// What a step's time is made of, in seconds: a step, each token in it, each position that a token
// attends to, each sequence, each position of a sequence. The same terms as the scheduler's own
// model (step_cost.h).
struct StepCost {
  double step = 0;
  double token = 0;
  double position = 0;
  double sequence = 0;
  double context = 0;

  double Seconds(const StepWork& work) const {
    return step + token * work.tokens + position * work.attended + sequence * work.sequences +
           context * work.context;
  }
};

StepWork WorkOf(const StepPlan& plan);

struct ObservedStep {
  StepWork work;
  double seconds = 0;
  double start = 0;  // seconds from some time on; never less than the one before
};

// How long a step takes: what its cost says, times how much longer or shorter real steps of about
// as many tokens took than their cost says. That keeps both the scatter of real steps, without
// which the slow ones would be missing, and what is not linear in their work.
class StepTime {
 public:
  explicit StepTime(const StepCost& cost) : cost_(cost) {}
  StepTime(const StepCost& cost, const std::vector<ObservedStep>& observed);

  // The mean of such steps.
  double Seconds(const StepWork& work) const;
  // As long, among such steps, as the observed step at `place` was among those like it.
  double SecondsLike(size_t place, const StepWork& work) const;

  // When the observed ones began.
  const std::vector<double>& starts() const { return starts_; }

  const StepCost& cost() const { return cost_; }
  // The mean of |real - expected| / real over the steps observed, by Seconds' mean; 0 of none.
  double relative_error() const { return relative_error_; }

 private:
  static constexpr size_t kClasses = 32;
  static size_t ClassOf(const StepWork& work);
  const Samples& RatiosOf(const StepWork& work) const;

  StepCost cost_;
  Samples ratios_;                            // real time over the cost's, sorted
  std::array<Samples, kClasses> by_class_{};  // as well; empty: too few were seen
  std::vector<double> ranks_;                 // of the observed steps among their class, in [0, 1)
  std::vector<double> starts_;
  double relative_error_ = 0;
};

// The cost that suits these steps best: least squares of the relative error, in which what is far
// off counts for less (a host that stalls), and no term is negative. InvalidArgument when they are
// too few.
absl::StatusOr<StepCost> FitStepCost(const std::vector<ObservedStep>& observed);

}  // namespace sluice::engine
