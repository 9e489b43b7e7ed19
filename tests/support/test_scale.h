#pragma once

#include <algorithm>
#include <cstdlib>

namespace sluice::testing {

// How much of their usual work long tests do: SLUICE_TEST_SCALE, 1 when unset. The sanitizers'
// builds set it lower.
inline double TestScale() {
  const char* scale = std::getenv("SLUICE_TEST_SCALE");
  const double value = scale != nullptr ? std::atof(scale) : 1.0;
  return value > 0 ? value : 1.0;
}
inline int Scaled(int n) { return std::max(1, static_cast<int>(n * TestScale())); }

}  // namespace sluice::testing
