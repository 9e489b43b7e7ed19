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
    work.Add(slice.first_position, slice.count);
  }
  return work;
}

StepTime::StepTime(const StepCost& cost, const std::vector<ObservedStep>& observed)
    : cost_(cost), ranks_(observed.size()) {
  using Ratio = std::pair<double, size_t>;  // and the step's place
  std::vector<double> all;
  std::array<std::vector<Ratio>, kClasses> by_class;
  for (size_t i = 0; i < observed.size(); ++i) {
    const StepWork& work = observed[i].work;
    all.push_back(observed[i].seconds / std::max(kSecondsMin, cost.Seconds(work)));
    by_class[ClassOf(work)].emplace_back(all.back(), i);
    starts_.push_back(observed[i].start);
  }
  for (size_t c = 0; c < kClasses; ++c) {
    std::vector<Ratio>& ratios = by_class[c];
    std::sort(ratios.begin(), ratios.end());
    std::vector<double> values;
    for (size_t i = 0; i < ratios.size(); ++i) {
      ranks_[ratios[i].second] = static_cast<double>(i) / static_cast<double>(ratios.size());
      values.push_back(ratios[i].first);
    }
    if (values.size() >= kClassSamplesMin) by_class_[c] = Samples(std::move(values));
  }
  std::sort(all.begin(), all.end());
  ratios_ = Samples(std::move(all));
  for (const ObservedStep& step : observed) {
    const double error = std::abs(step.seconds - Seconds(step.work));
    relative_error_ += error / step.seconds / static_cast<double>(observed.size());
  }
}

// By powers of two of their tokens.
size_t StepTime::ClassOf(const StepWork& work) {
  return std::min<size_t>(std::bit_width(static_cast<uint32_t>(std::max(work.tokens, 0))),
                          kClasses - 1);
}

const Samples& StepTime::RatiosOf(const StepWork& work) const {
  const Samples& own = by_class_[ClassOf(work)];
  return own.empty() ? ratios_ : own;
}

double StepTime::Seconds(const StepWork& work) const {
  const Samples& ratios = RatiosOf(work);
  const double ratio = ratios.empty() ? 1 : ratios.mean();
  return std::clamp(cost_.Seconds(work) * ratio, kSecondsMin, kSecondsMax);
}

double StepTime::SecondsLike(size_t place, const StepWork& work) const {
  const Samples& ratios = RatiosOf(work);
  if (ratios.empty()) return Seconds(work);
  const double rank = ranks_[place] * static_cast<double>(ratios.size());
  return std::clamp(cost_.Seconds(work) * ratios[static_cast<size_t>(rank)], kSecondsMin,
                    kSecondsMax);
}

}  // namespace sluice::engine
