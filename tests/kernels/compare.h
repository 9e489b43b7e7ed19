#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/tensor.h"

namespace sluice::kernels::testing {

// Whether `got` is `want` within `tolerance`; NaN equals NaN only, an infinity itself only.
inline bool Near(double got, double want, double tolerance) {
  if (std::isnan(got) || std::isnan(want)) return std::isnan(got) && std::isnan(want);
  if (std::isinf(got) || std::isinf(want)) return got == want;
  return std::fabs(got - want) <= tolerance;
}

// Element i within `tolerance(i)`. Reports the first miss, their number, and the largest error in
// tolerances.
template <typename Tolerance>
::testing::AssertionResult AllNear(std::span<const float> got, std::span<const float> want,
                                   Tolerance tolerance) {
  if (got.size() != want.size()) {
    return ::testing::AssertionFailure() << got.size() << " values, not " << want.size();
  }
  size_t misses = 0, first = 0;
  double worst = 0.0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double allowed = tolerance(i);
    if (Near(got[i], want[i], allowed)) continue;
    if (misses++ == 0) first = i;
    worst = std::fmax(worst, std::fabs(double{got[i]} - want[i]) / allowed);
  }
  if (misses == 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << misses << " of " << got.size() << " wrong, first at " << first << ": " << got[first]
         << " not " << want[first] << " +- " << tolerance(first) << "; largest error " << worst
         << " tolerances";
}

inline ::testing::AssertionResult AllNear(std::span<const float> got, std::span<const float> want,
                                          double tolerance) {
  return AllNear(got, want, [=](size_t) { return tolerance; });
}

// Bit for bit.
template <typename T>
::testing::AssertionResult SameBits(std::span<const T> got, std::span<const T> want) {
  if (got.size() != want.size()) {
    return ::testing::AssertionFailure() << got.size() << " values, not " << want.size();
  }
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::memcmp(&got[i], &want[i], sizeof(T)) != 0) {
      return ::testing::AssertionFailure() << "different bits at " << i;
    }
  }
  return ::testing::AssertionSuccess();
}

inline double NormOf(std::span<const float> values) {
  double sum = 0.0;
  for (const float value : values) sum += double{value} * value;
  return std::sqrt(sum);
}

}  // namespace sluice::kernels::testing
