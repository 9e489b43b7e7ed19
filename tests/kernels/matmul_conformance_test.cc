#include <limits>
#include <span>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/dequantize.h"
#include "tests/kernels/compare.h"
#include "tests/kernels/device.h"
#include "tests/kernels/oracle.h"
#include "tests/kernels/random_data.h"
#include "tests/support/test_scale.h"

// Products and embeddings of every format, compared with the reference (and the reference with
// plain loops). The error of an element is measured against |row of the left side| * |row of the
// weight|, so that it says how many bits are right whatever cancels.
namespace sluice::kernels::testing {
namespace {

constexpr float kGuard = 12345.0f;

// How far a result may be off. The reference rounds once. The fast ones sum in float, in several
// lanes; an int8 product is exact within a block and its quanta are the same, so the same bound
// holds.
double Tolerance(const Subject& subject) { return subject.is_reference ? 1.2e-7 : 2e-6; }

struct Problem {
  RawWeight weight;
  int64_t rows = 0;  // of the left side
  std::vector<float> x;
  std::vector<float> bias;    // empty: none
  std::vector<float> want;    // [rows, weight.rows]
  std::vector<double> scale;  // [rows, weight.rows] norms that errors are measured by
};

std::vector<float> RowOf(const std::vector<float>& values, int64_t row, int64_t cols) {
  return {values.begin() + row * cols, values.begin() + (row + 1) * cols};
}

class MatMulConformance : public ::testing::TestWithParam<SubjectMode> {
 protected:
  const Subject& subject() const { return GetParam().subject; }
  int64_t Rows(int64_t most) const {
    return subject().is_reference ? std::min<int64_t>(most, 9) : most;
  }

  Problem MakeProblem(RawWeight weight, std::vector<float> x, std::vector<float> bias = {}) {
    Problem p{std::move(weight), 0, std::move(x), std::move(bias), {}, {}};
    p.rows = static_cast<int64_t>(p.x.size()) / p.weight.cols;
    p.want = Expected(p);
    std::vector<float> w(static_cast<size_t>(p.weight.cols));
    std::vector<double> norms;
    for (int64_t n = 0; n < p.weight.rows; ++n) {
      const int64_t row_bytes = BytesOf(p.weight.dtype, p.weight.cols);
      DequantizeRow(p.weight.dtype, p.weight.bytes.data() + n * row_bytes, w.data(), p.weight.cols);
      norms.push_back(NormOf(w));
    }
    for (int64_t t = 0; t < p.rows; ++t) {
      const double x_norm = NormOf(RowOf(p.x, t, p.weight.cols));
      for (size_t n = 0; n < norms.size(); ++n) {
        const double bias_size = p.bias.empty() ? 0.0 : std::fabs(p.bias[n]);
        p.scale.push_back(x_norm * norms[n] + bias_size + 1e-30);
      }
    }
    return p;
  }

  // The first `rows` rows of the problem on the device, with the output in a strided view whose gap
  // must stay as it was.
  ::testing::AssertionResult Check(Device& device, const Problem& p, const WeightView& weight,
                                   int64_t rows) {
    const int64_t n = p.weight.rows, stride = n + 3;
    const ActivationFormat format = device.backend().ActivationFormatFor(p.weight.dtype);
    const std::vector<float> x(p.x.begin(), p.x.begin() + rows * p.weight.cols);
    const ActivationView in = device.LoadActivation(format, x, rows, p.weight.cols);
    float* out = device.Upload(std::vector<float>(static_cast<size_t>(rows * stride), kGuard));
    ConstTensorView bias;
    if (!p.bias.empty()) bias = Vector(device.Upload(p.bias), n);
    device.ops().MatMul(Matrix(out, rows, n, stride), in, weight, bias);
    const auto got = device.Download<float>(out, rows * stride);
    const double tolerance = Tolerance(subject());
    for (int64_t t = 0; t < rows; ++t) {
      const std::vector<float> row = RowOf(got, t, stride);
      const double* scale = p.scale.data() + t * n;
      const auto result = AllNear(std::span(row).first(static_cast<size_t>(n)), RowOf(p.want, t, n),
                                  [&](size_t i) { return tolerance * scale[i]; });
      if (!result) return ::testing::AssertionFailure() << "row " << t << ": " << result.message();
      for (int64_t i = n; i < stride; ++i) {
        if (row[static_cast<size_t>(i)] != kGuard) {
          return ::testing::AssertionFailure() << "wrote past row " << t;
        }
      }
    }
    return ::testing::AssertionSuccess();
  }

 private:
  std::vector<float> Expected(const Problem& p) {
    if (!subject().is_reference) {
      // A backend may want plain floats where the reference would take int8.
      const bool int8 =
          Device(GetParam()).backend().ActivationFormatFor(p.weight.dtype) == ActivationFormat::kQ8;
      Device reference(ReferenceSubject(), int8 ? ActivationMode::kInt8 : ActivationMode::kF32);
      const ActivationFormat format = reference.backend().ActivationFormatFor(p.weight.dtype);
      float* out = reference.Floats(p.rows * p.weight.rows);
      ConstTensorView bias;
      if (!p.bias.empty()) bias = Vector(reference.Upload(p.bias), p.weight.rows);
      reference.ops().MatMul(Matrix(out, p.rows, p.weight.rows),
                             reference.LoadActivation(format, p.x, p.rows, p.weight.cols),
                             reference.Pack(p.weight), bias);
      return reference.Download<float>(out, p.rows * p.weight.rows);
    }
    const bool blocks = InfoOf(p.weight.dtype).block_elements > 1;
    const ActivationFormat format = blocks && GetParam().mode == ActivationMode::kInt8
                                        ? ActivationFormat::kQ8
                                        : ActivationFormat::kF32;
    std::vector<float> want;
    for (int64_t t = 0; t < p.rows; ++t) {
      const auto x = ActivationValues(format, RowOf(p.x, t, p.weight.cols));
      const std::vector<float> row = OracleProduct(p.weight, x);
      for (size_t n = 0; n < row.size(); ++n) {
        want.push_back(p.bias.empty() ? row[n] : row[n] + p.bias[n]);
      }
    }
    return want;
  }
};

TEST_P(MatMulConformance, EveryFormatAndShape) {
  Random random(1);
  const int64_t size_max = sluice::testing::TestScale() < 1 ? 100'000 : 400'000;
  for (const DType dtype : kWeightTypes) {
    const int64_t block = InfoOf(dtype).block_elements;
    for (const int64_t cols : {32, 64, 96, 256, 576, 768, 1536}) {
      if (cols % block != 0) continue;
      for (const int64_t outputs : {1, 3, 7, 8, 9, 49, 576}) {
        // The widest of both say nothing new together, and take most of the time.
        if (cols * outputs > size_max && !(cols == 1536 && dtype == DType::kQ4_1)) continue;
        const int64_t most = Rows(cols == 576 || outputs == 9 ? 130 : 33);
        const Problem p = MakeProblem(RandomWeight(random, dtype, outputs, cols),
                                      RandomActivations(random, most, cols));
        Device device(GetParam());
        const WeightView weight = device.Pack(p.weight);
        EXPECT_EQ(weight.rows, outputs);
        EXPECT_EQ(weight.cols, cols);
        EXPECT_EQ(weight.dtype, dtype);
        for (const int64_t rows : {1, 2, 3, 5, 8, 17, 33, 64, 130}) {
          if (rows > most) break;
          ASSERT_TRUE(Check(device, p, weight, rows))
              << InfoOf(dtype).name << " rows " << rows << " cols " << cols << " out " << outputs;
        }
      }
    }
  }
}

TEST_P(MatMulConformance, PlainFormatsOfAnyWidth) {
  Random random(2);
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const int64_t cols : {1, 2, 7, 15, 17, 33, 100, 577}) {
      for (const int64_t outputs : {1, 5, 16, 31}) {
        const Problem p = MakeProblem(RandomWeight(random, dtype, outputs, cols),
                                      RandomActivations(random, 6, cols));
        Device device(GetParam());
        const WeightView weight = device.Pack(p.weight);
        for (const int64_t rows : {1, 4, 6}) {
          ASSERT_TRUE(Check(device, p, weight, rows))
              << InfoOf(dtype).name << " rows " << rows << " cols " << cols << " out " << outputs;
        }
      }
    }
  }
}

TEST_P(MatMulConformance, AddsBias) {
  Random random(3);
  for (const DType dtype : kWeightTypes) {
    const Problem p = MakeProblem(RandomWeight(random, dtype, 37, 256),
                                  RandomActivations(random, 9, 256), random.Normals(37));
    Device device(GetParam());
    const WeightView weight = device.Pack(p.weight);
    for (const int64_t rows : {1, 9}) {
      EXPECT_TRUE(Check(device, p, weight, rows)) << InfoOf(dtype).name << " rows " << rows;
    }
  }
}

// Query, key and value matrices become one; the parts lie anywhere, on odd addresses too.
TEST_P(MatMulConformance, StacksPartsOfAnyAlignment) {
  Random random(4);
  for (const DType dtype : kWeightTypes) {
    const RawWeight whole = RandomWeight(random, dtype, 45, 512);
    const Problem p = MakeProblem(whole, RandomActivations(random, 9, 512));
    Device device(GetParam());
    const int64_t row_bytes = BytesOf(dtype, 512);
    std::vector<std::vector<std::byte>> copies;
    std::vector<RawMatrix> parts;
    int64_t first = 0;
    for (const int64_t rows : {13, 1, 8, 23}) {
      std::vector<std::byte>& copy = copies.emplace_back(static_cast<size_t>(rows * row_bytes + 1));
      std::memcpy(copy.data() + 1, whole.bytes.data() + first * row_bytes,
                  static_cast<size_t>(rows * row_bytes));
      parts.push_back({dtype, rows, 512, copy.data() + 1});
      first += rows;
    }
    const WeightView weight = device.Pack(parts);
    copies.clear();  // packing keeps nothing of what it read
    EXPECT_EQ(weight.rows, 45);
    for (const int64_t rows : {1, 9}) {
      EXPECT_TRUE(Check(device, p, weight, rows)) << InfoOf(dtype).name << " rows " << rows;
    }
  }
}

// The largest sums that narrow integers may meet, of either sign, and with alternating signs.
TEST_P(MatMulConformance, NothingSaturates) {
  for (const DType dtype : kWeightTypes) {
    if (InfoOf(dtype).block_elements == 1) continue;
    for (const bool upper_end : {false, true}) {
      std::vector<float> x;
      for (int row = 0; row < 9; ++row) {
        for (int i = 0; i < 1536; ++i) {
          const bool negative = row % 3 == 1 || (row % 3 == 2 && i % 2 == 1);
          x.push_back((negative ? -1.0f : 1.0f) * static_cast<float>(row + 1));
        }
      }
      const Problem p = MakeProblem(ExtremeWeight(dtype, 17, 1536, upper_end), x);
      Device device(GetParam());
      const WeightView weight = device.Pack(p.weight);
      for (const int64_t rows : {1, 3, 9}) {
        EXPECT_TRUE(Check(device, p, weight, rows))
            << InfoOf(dtype).name << " rows " << rows << (upper_end ? " upper" : " lower");
      }
    }
  }
}

TEST_P(MatMulConformance, ZeroAndTinyRows) {
  Random random(5);
  for (const DType dtype : kWeightTypes) {
    std::vector<float> x(4 * 256, 0.0f);
    for (size_t i = 256; i < 512; ++i) x[i] = 1e-36f;
    for (size_t i = 512; i < 768; ++i) x[i] = i % 3 == 0 ? 1e-20f : 0.0f;
    const RawWeight raw = RandomWeight(random, dtype, 11, 256);
    Device device(GetParam());
    const ActivationFormat format = device.backend().ActivationFormatFor(dtype);
    float* out = device.Floats(4 * 11);
    device.ops().MatMul(Matrix(out, 4, 11), device.LoadActivation(format, x, 4, 256),
                        device.Pack(raw));
    const auto got = device.Download<float>(out, 4 * 11);
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(std::isfinite(got[i]) && std::fabs(got[i]) < 1e-15) << i << ": " << got[i];
    }
    for (size_t i = 0; i < 11; ++i) EXPECT_EQ(got[i], 0.0f);
  }
}

// A NaN or an infinity on the left spoils its own row, all of it, and no other.
TEST_P(MatMulConformance, NanStaysInItsRow) {
  Random random(6);
  for (const DType dtype : kWeightTypes) {
    for (const float poison :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      std::vector<float> x = RandomActivations(random, 11, 256);
      const RawWeight raw = RandomWeight(random, dtype, 19, 256);
      Device device(GetParam());
      const WeightView weight = device.Pack(raw);
      const ActivationFormat format = device.backend().ActivationFormatFor(dtype);
      float* out = device.Floats(2 * 11 * 19);
      device.ops().MatMul(Matrix(out, 11, 19), device.LoadActivation(format, x, 11, 256), weight);
      x[4 * 256 + 77] = poison;
      device.ops().MatMul(Matrix(out + 11 * 19, 11, 19), device.LoadActivation(format, x, 11, 256),
                          weight);
      const auto clean = device.Download<float>(out, 11 * 19);
      const auto poisoned = device.Download<float>(out + 11 * 19, 11 * 19);
      for (size_t i = 0; i < clean.size(); ++i) {
        if (i / 19 == 4) {
          EXPECT_FALSE(std::isfinite(poisoned[i])) << InfoOf(dtype).name << " " << i;
        } else {
          EXPECT_EQ(clean[i], poisoned[i]) << InfoOf(dtype).name << " " << i;
        }
      }
    }
  }
}

TEST_P(MatMulConformance, EmbedsRowsOfEveryFormat) {
  Random random(7);
  for (const DType dtype : kWeightTypes) {
    for (const int64_t cols : {256, 576, 768, 33}) {
      if (cols % InfoOf(dtype).block_elements != 0) continue;
      const int64_t vocabulary = 53, stride = cols + 5;
      const RawWeight table = RandomWeight(random, dtype, vocabulary, cols);
      std::vector<int32_t> ids{0, 52, 7, 7};
      for (int i = 0; i < 13; ++i) ids.push_back(static_cast<int32_t>(random.Below(vocabulary)));
      const auto rows = static_cast<int64_t>(ids.size());
      Device device(GetParam());
      float* out = device.Upload(std::vector<float>(static_cast<size_t>(rows * stride), kGuard));
      device.ops().Embed(Matrix(out, rows, cols, stride), device.Pack(table),
                         Vector(device.Upload(ids), rows, DType::kI32));
      const auto got = device.Download<float>(out, rows * stride);
      std::vector<float> want(static_cast<size_t>(cols));
      for (int64_t t = 0; t < rows; ++t) {
        DequantizeRow(dtype,
                      table.bytes.data() + ids[static_cast<size_t>(t)] * BytesOf(dtype, cols),
                      want.data(), cols);
        // One rounding, or two: within one unit of the larger of its two terms.
        const double tolerance = subject().is_reference ? 0.0 : 2e-7 * NormOf(want);
        const auto row = RowOf(got, t, stride);
        ASSERT_TRUE(AllNear(std::span(row).first(want.size()), want, tolerance))
            << InfoOf(dtype).name << " cols " << cols << " row " << t;
        for (size_t i = want.size(); i < row.size(); ++i) ASSERT_EQ(row[i], kGuard);
      }
    }
  }
}

SLUICE_FOR_ALL_SUBJECTS(MatMulConformance);

}  // namespace
}  // namespace sluice::kernels::testing
