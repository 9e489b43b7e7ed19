#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "kernels/tensor.h"
#include "tests/kernels/device.h"

namespace sluice::kernels::testing {

// Reproducible test data: the same seed gives the same values everywhere (the standard's
// distributions do not promise that).
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}

  uint64_t Bits() { return engine_(); }
  int64_t Below(int64_t n) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(n)); }
  double Uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
  float Uniform(double low, double high) {
    return static_cast<float>(low + (high - low) * Uniform());
  }
  // Nearly normal, deviation 1: a sum of uniforms.
  float Normal();
  std::vector<float> Normals(int64_t n);
  template <typename T>
  void Shuffle(std::vector<T>& values) {
    for (size_t i = values.size(); i > 1; --i) {
      std::swap(values[i - 1], values[static_cast<size_t>(Below(static_cast<int64_t>(i)))]);
    }
  }

 private:
  std::mt19937_64 engine_;
};

// Values whose quanta in Q8 do not hang on the last bit of the arithmetic: none of x * 127 / m is
// within 1/1000 of a half. [rows, cols].
std::vector<float> RandomActivations(Random& random, int64_t rows, int64_t cols);

// Random bits for quanta and group scales, sensible numbers for the block scales.
RawWeight RandomWeight(Random& random, DType dtype, int64_t rows, int64_t cols);
// Every quantum at an end of its range, scales of one sign: the largest sums that integers must
// hold.
RawWeight ExtremeWeight(DType dtype, int64_t rows, int64_t cols, bool upper_end);

inline constexpr DType kWeightTypes[] = {DType::kF32,  DType::kF16,  DType::kBF16, DType::kQ8_0,
                                         DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1,
                                         DType::kQ4_K, DType::kQ5_K, DType::kQ6_K};

}  // namespace sluice::kernels::testing
