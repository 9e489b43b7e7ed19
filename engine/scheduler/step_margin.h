#pragma once

#include <algorithm>

namespace sluice::engine {

// How far below a target steps are planned, so that nearly all keep it. Real steps scatter around
// what is predicted, and half of those planned right at the target would be late. How much to spare
// differs between machines and loads, so it is learnt: a little more after a step that was late,
// and much less of a little after one that was not, which settles where kLateShare of the steps are
// late, however they scatter (a quantile by stochastic approximation: Robbins, Monro 1951). Pure
// arithmetic. Engine thread only.
class StepMargin {
 public:
  // Of a target, in [0, kMost].
  double share() const { return share_; }

  // Of a step that was planned to take all the time that there was.
  void Observe(bool late) {
    share_ = std::clamp(share_ + kGain * ((late ? 1.0 : 0.0) - kLateShare), 0.0, kMost);
  }

  static constexpr double kLateShare = 0.03;
  // Where steps scatter whatever they compute, sparing more would only cost throughput.
  static constexpr double kMost = 0.25;

 private:
  static constexpr double kGain = 0.01;

  double share_ = 0.1;
};

}  // namespace sluice::engine
