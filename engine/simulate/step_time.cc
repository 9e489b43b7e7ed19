#include "engine/simulate/step_time.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace sluice::engine {
namespace {

constexpr size_t kClassSamplesMin = 16;
constexpr double kSecondsMin = 1e-9;  // virtual time always goes on
constexpr double kSecondsMax = 1e5;

}  // namespace

StepWork WorkOf(const StepPlan& plan) {
  StepWork work;
  for (const PlanSlice& slice : plan.slices) {
    ++work.sequences;
    work.tokens += slice.count;
    work.attended +=
        static_cast<double>(slice.count) * (slice.first_position + (slice.count + 1) / 2.0);
  }
  return work;
}

StepTime::StepTime(const StepCost& cost, const std::vector<ObservedStep>& observed) : cost_(cost) {
  std::vector<double> all;
  std::array<std::vector<double>, kClasses> by_class;
  for (const ObservedStep& step : observed) {
    const double ratio = step.seconds / std::max(kSecondsMin, cost.Seconds(step.work));
    all.push_back(ratio);
    by_class[ClassOf(step.work)].push_back(ratio);
  }
  ratios_ = Samples(std::move(all));
  for (size_t i = 0; i < kClasses; ++i) {
    if (by_class[i].size() >= kClassSamplesMin) by_class_[i] = Samples(std::move(by_class[i]));
  }
  for (const ObservedStep& step : observed) {
    const double error = std::abs(step.seconds - Seconds(step.work, nullptr));
    relative_error_ += error / step.seconds / static_cast<double>(observed.size());
  }
}

// By powers of two of their tokens.
size_t StepTime::ClassOf(const StepWork& work) {
  return std::min<size_t>(std::bit_width(static_cast<uint32_t>(std::max(work.tokens, 0))),
                          kClasses - 1);
}

double StepTime::Seconds(const StepWork& work, Draws* draws) const {
  const Samples& own = by_class_[ClassOf(work)];
  const Samples& ratios = own.empty() ? ratios_ : own;
  const double ratio = ratios.empty() ? 1 : ratios.Draw(draws);
  return std::clamp(cost_.Seconds(work) * ratio, kSecondsMin, kSecondsMax);
}

}  // namespace sluice::engine
