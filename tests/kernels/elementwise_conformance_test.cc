#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/compare.h"
#include "tests/kernels/device.h"
#include "tests/kernels/oracle.h"
#include "tests/kernels/random_data.h"

// Norms, gated activations and gathering. Their results may go into either activation format; a Q8
// one may be off by half a quantum of its block from the exact value.
namespace sluice::kernels::testing {
namespace {

constexpr float kGuard = -4321.0f;

class ElementwiseConformance : public ::testing::TestWithParam<SubjectMode> {
 protected:
  const Subject& subject() const { return GetParam().subject; }

  // The formats that a row of this width may be asked in. (Reading a Q8 row back takes a product
  // with the identity: the widest ones cost too much.)
  std::vector<ActivationFormat> Formats(int64_t cols) const {
    if (GetParam().mode == ActivationMode::kF32 || cols % 32 != 0 || cols > 1536) {
      return {ActivationFormat::kF32};
    }
    return {ActivationFormat::kF32, ActivationFormat::kQ8};
  }

  // `relative` of the value, plus `absolute`; for Q8 the quantum.
  ::testing::AssertionResult CheckActivation(Device& device, const ActivationView& view,
                                             const std::vector<float>& want, double relative,
                                             double absolute) {
    const std::vector<float> got = device.ReadActivation(view);
    std::vector<double> steps(want.size(), 0.0);
    if (view.format == ActivationFormat::kQ8) steps = Q8Steps(want);
    return AllNear(got, want, [&](size_t i) {
      return relative * std::fabs(want[i]) + absolute + 0.501 * steps[i];
    });
  }
};

double Relative(const Subject& subject) { return subject.is_reference ? 1.2e-7 : 2e-6; }

std::vector<float> Strided(const std::vector<float>& values, int64_t cols, int64_t stride) {
  const auto rows = static_cast<int64_t>(values.size()) / cols;
  std::vector<float> result(static_cast<size_t>(rows * stride), kGuard);
  for (int64_t t = 0; t < rows; ++t) {
    std::copy_n(values.begin() + t * cols, cols, result.begin() + t * stride);
  }
  return result;
}

std::vector<float> ExpectedNorm(const std::vector<float>& x, const std::vector<float>& weight,
                                float eps) {
  std::vector<float> want;
  for (size_t row = 0; row < x.size(); row += weight.size()) {
    const auto normal = OracleRmsNorm(std::span(x).subspan(row, weight.size()), weight, eps);
    want.insert(want.end(), normal.begin(), normal.end());
  }
  return want;
}

TEST_P(ElementwiseConformance, RmsNorm) {
  Random random(11);
  for (const int64_t cols : {1, 31, 32, 64, 96, 100, 576, 1536, 4096}) {
    for (const int64_t rows : {1, 2, 3, 5, 17, 64}) {
      const std::vector<float> x = random.Normals(rows * cols), weight = random.Normals(cols);
      const std::vector<float> want = ExpectedNorm(x, weight, 1e-5f);
      for (const ActivationFormat format : Formats(cols)) {
        Device device(GetParam());
        const int64_t stride = cols + 7;
        const ActivationView out = device.NewActivation(format, rows, cols);
        device.ops().RmsNorm(out,
                             Matrix(device.Upload(Strided(x, cols, stride)), rows, cols, stride),
                             Vector(device.Upload(weight), cols), 1e-5f);
        ASSERT_TRUE(CheckActivation(device, out, want, Relative(subject()), 1e-30))
            << "rows " << rows << " cols " << cols;
      }
    }
  }
}

// A row of zeros gives zeros, not NaN; eps counts; large and small rows keep their relative
// precision.
TEST_P(ElementwiseConformance, RmsNormEdges) {
  Random random(12);
  const int64_t cols = 96;
  std::vector<float> x = random.Normals(4 * cols);
  const std::vector<float> weight = random.Normals(cols);
  for (int64_t i = 0; i < cols; ++i) {
    x[static_cast<size_t>(i)] = 0.0f;
    x[static_cast<size_t>(cols + i)] *= 1e-4f;
    x[static_cast<size_t>(2 * cols + i)] *= 1e15f;
  }
  const std::vector<float> want = ExpectedNorm(x, weight, 1e-6f);
  Device device(GetParam());
  const ActivationView out = device.NewActivation(ActivationFormat::kF32, 4, cols);
  device.ops().RmsNorm(out, Matrix(device.Upload(x), 4, cols), Vector(device.Upload(weight), cols),
                       1e-6f);
  EXPECT_TRUE(CheckActivation(device, out, want, Relative(subject()), 0.0));
}

TEST_P(ElementwiseConformance, AddRmsNorm) {
  Random random(13);
  for (const int64_t cols : {31, 32, 96, 576, 1536}) {
    for (const int64_t rows : {1, 3, 17}) {
      const std::vector<float> x = random.Normals(rows * cols), delta = random.Normals(rows * cols);
      const std::vector<float> weight = random.Normals(cols);
      std::vector<float> sum(x.size());
      for (size_t i = 0; i < x.size(); ++i) sum[i] = x[i] + delta[i];
      const std::vector<float> want = ExpectedNorm(sum, weight, 1e-5f);
      for (const ActivationFormat format : Formats(cols)) {
        Device device(GetParam());
        const int64_t stride = cols + 2, delta_stride = cols + 9;
        float* x_data = device.Upload(Strided(x, cols, stride));
        const ActivationView out = device.NewActivation(format, rows, cols);
        device.ops().AddRmsNorm(
            Matrix(x_data, rows, cols, stride), out,
            Matrix(device.Upload(Strided(delta, cols, delta_stride)), rows, cols, delta_stride),
            Vector(device.Upload(weight), cols), 1e-5f);
        // One float addition has one right answer; the gap between rows stays.
        EXPECT_TRUE(SameBits<float>(device.Download<float>(x_data, rows * stride),
                                    Strided(sum, cols, stride)));
        ASSERT_TRUE(CheckActivation(device, out, want, Relative(subject()), 1e-30))
            << "rows " << rows << " cols " << cols;
      }
    }
  }
}

TEST_P(ElementwiseConformance, GatedActivation) {
  Random random(14);
  for (const GateKind kind : {GateKind::kSilu, GateKind::kGelu}) {
    for (const int64_t cols : {1, 31, 32, 96, 576, 1536}) {
      for (const int64_t rows : {1, 3, 17}) {
        std::vector<float> gate_up = random.Normals(rows * 2 * cols), want;
        for (float& value : gate_up) value *= 4.0f;
        for (size_t row = 0; row < gate_up.size(); row += static_cast<size_t>(2 * cols)) {
          const auto result =
              OracleGated(std::span(gate_up).subspan(row, static_cast<size_t>(2 * cols)), kind);
          want.insert(want.end(), result.begin(), result.end());
        }
        for (const ActivationFormat format : Formats(cols)) {
          Device device(GetParam());
          const int64_t stride = 2 * cols + 5;
          const ActivationView out = device.NewActivation(format, rows, cols);
          device.ops().GatedActivation(
              out,
              Matrix(device.Upload(Strided(gate_up, 2 * cols, stride)), rows, 2 * cols, stride),
              kind);
          // tanh near -1 cancels: an absolute error of a few units times |gate * up|.
          ASSERT_TRUE(CheckActivation(device, out, want, 4 * Relative(subject()), 4e-5))
              << "rows " << rows << " cols " << cols;
        }
      }
    }
  }
}

// Far outside of the range where exp is finite the gate is open or closed, never NaN.
TEST_P(ElementwiseConformance, GatedActivationEdges) {
  const std::vector<float> gates{0.0f,   -0.0f, 20.0f, -20.0f, 88.0f,  -88.0f, 89.0f,
                                 -89.0f, 1e4f,  -1e4f, 1e12f,  -1e12f, 3e-38f, -3e-38f};
  const auto cols = static_cast<int64_t>(gates.size());
  std::vector<float> gate_up = gates;
  gate_up.resize(gates.size() * 2, 1.5f);
  for (const GateKind kind : {GateKind::kSilu, GateKind::kGelu}) {
    Device device(GetParam());
    const ActivationView out = device.NewActivation(ActivationFormat::kF32, 1, cols);
    device.ops().GatedActivation(out, Matrix(device.Upload(gate_up), 1, 2 * cols), kind);
    EXPECT_TRUE(CheckActivation(device, out, OracleGated(gate_up, kind), 1e-5, 1e-6));
  }
}

TEST_P(ElementwiseConformance, NanStaysInItsRow) {
  Random random(15);
  const int64_t rows = 7, cols = 96;
  const std::vector<float> weight = random.Normals(cols);
  const std::vector<float> clean = random.Normals(rows * 2 * cols);
  std::vector<float> poisoned = clean;
  poisoned[3 * 2 * 96 + 50] = std::numeric_limits<float>::quiet_NaN();
  for (const ActivationFormat format : Formats(cols)) {
    std::vector<std::vector<float>> results;
    for (const std::vector<float>& values : {clean, poisoned}) {
      Device device(GetParam());
      const ActivationView normal = device.NewActivation(format, rows, cols);
      const ActivationView gated = device.NewActivation(format, rows, cols);
      float* data = device.Upload(values);
      device.ops().RmsNorm(normal, Matrix(data, rows, cols, 2 * cols),
                           Vector(device.Upload(weight), cols), 1e-5f);
      device.ops().GatedActivation(gated, Matrix(data, rows, 2 * cols), GateKind::kSilu);
      results.push_back(device.ReadActivation(normal));
      const auto more = device.ReadActivation(gated);
      results.back().insert(results.back().end(), more.begin(), more.end());
    }
    for (size_t i = 0; i < results[0].size(); ++i) {
      const bool poisoned_row = i / 96 % 7 == 3, in_norm = i < 7 * 96;
      if (!poisoned_row) {
        EXPECT_EQ(results[0][i], results[1][i]) << i;
      } else if (in_norm || i % 96 == 50) {
        EXPECT_TRUE(std::isnan(results[1][i])) << i;
      }
    }
  }
}

TEST_P(ElementwiseConformance, GatherRows) {
  Random random(16);
  const int64_t rows = 9, cols = 33, stride = 40;
  std::vector<float> x = random.Normals(rows * stride);
  x[2 * 40 + 5] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<int32_t> indices{8, 0, 2, 2, 7};
  Device device(GetParam());
  float* out = device.Upload(std::vector<float>(5 * 35, kGuard));
  device.ops().GatherRows(Matrix(out, 5, cols, 35), Matrix(device.Upload(x), rows, cols, stride),
                          Vector(device.Upload(indices), 5, DType::kI32));
  std::vector<float> want(5 * 35, kGuard);
  for (size_t s = 0; s < 5; ++s) {
    std::copy_n(x.begin() + indices[s] * stride, cols, want.begin() + static_cast<int64_t>(s) * 35);
  }
  EXPECT_TRUE(SameBits<float>(device.Download<float>(out, 5 * 35), want));
}

// Whole blocks, one copy after the other: the second one reads what the first one wrote.
TEST_P(ElementwiseConformance, CopyBlocks) {
  Random random(17);
  constexpr int64_t kBlocks = 5, kFloats = 12'345;  // of an odd size, over several layers
  const std::vector<float> before = random.Normals(kBlocks * kFloats);
  Device device(GetParam());
  float* memory = device.Upload(before);
  KvLayerView kv;
  kv.base = reinterpret_cast<std::byte*>(memory);
  kv.blocks = kBlocks;
  kv.block_bytes = kFloats * static_cast<int64_t>(sizeof(float));
  const std::vector<BlockCopy> copies{{0, 3}, {3, 1}, {4, 0}};
  device.ops().CopyBlocks(kv, copies);
  std::vector<float> want = before;
  for (const BlockCopy& copy : copies) {
    std::copy_n(want.begin() + copy.from * kFloats, kFloats, want.begin() + copy.to * kFloats);
  }
  EXPECT_TRUE(SameBits<float>(device.Download<float>(memory, kBlocks * kFloats), want));
  device.ops().CopyBlocks(kv, {});
}

// A step may have nothing to do.
TEST_P(ElementwiseConformance, NoRows) {
  Device device(GetParam());
  float* data = device.Floats(64);
  const ActivationView none = device.NewActivation(ActivationFormat::kF32, 0, 32);
  device.ops().RmsNorm(none, Matrix(data, 0, 32), Vector(data, 32), 1e-5f);
  device.ops().GatedActivation(none, Matrix(data, 0, 64), GateKind::kSilu);
  device.ops().GatherRows(Matrix(data, 0, 32), Matrix(data, 1, 32), Vector(data, 0, DType::kI32));
  EXPECT_EQ(device.Download<float>(data, 64), std::vector<float>(64, 0.0f));
}

TEST_P(ElementwiseConformance, MemoryIsAlignedZeroedAndLimited) {
  Device device(GetParam());
  for (const size_t bytes : {1, 63, 64, 1000, 1 << 20}) {
    std::byte* data = device.Allocate(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 64, 0u);
    EXPECT_EQ(device.Download<std::byte>(data, static_cast<int64_t>(bytes)),
              std::vector<std::byte>(bytes));
  }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they end the process instead
  EXPECT_EQ(device.backend().Allocate(size_t{1} << 60), nullptr);
#endif
  EXPECT_FALSE(device.backend().Describe().empty());
}

SLUICE_FOR_ALL_SUBJECTS(ElementwiseConformance);

}  // namespace
}  // namespace sluice::kernels::testing
