#include <span>
#include <vector>

#include "kernels/dequantize.h"
#include "kernels/reference/activation.h"
#include "kernels/reference/reference_ops.h"

namespace sluice::kernels {
namespace {

// Four sums, added up in order at the end, so that the processor need not wait for each addition.
double Dot(std::span<const float> w, std::span<const double> x) {
  double sums[4] = {0.0, 0.0, 0.0, 0.0};
  const size_t whole = w.size() / 4 * 4;
  for (size_t i = 0; i < whole; i += 4) {
    for (size_t j = 0; j < 4; ++j) sums[j] += w[i + j] * x[i + j];
  }
  double sum = sums[0] + sums[1] + sums[2] + sums[3];
  for (size_t i = whole; i < w.size(); ++i) sum += w[i] * x[i];
  return sum;
}

}  // namespace

// The left side holds exact values (double holds scale * q exactly), a weight row its format's
// values rounded once to float: the sum over a block is the integer dot product times the scales
// but for that one rounding.
void ReferenceOps::DoMatMul(TensorView out, const ActivationView& in, const WeightView& weight,
                            ConstTensorView bias) {
  const auto cols = static_cast<size_t>(weight.cols);
  std::vector<double> x(static_cast<size_t>(in.rows) * cols);
  const auto x_row = [&](int64_t t) {
    return std::span<double>(x).subspan(static_cast<size_t>(t) * cols, cols);
  };
  for (int64_t t = 0; t < in.rows; ++t) ReadActivationRow(in, t, x_row(t));

  std::vector<float> w(cols);
  const int64_t row_bytes = BytesOf(weight.dtype, weight.cols);
  for (int64_t n = 0; n < weight.rows; ++n) {
    DequantizeRow(weight.dtype, weight.data + n * row_bytes, w.data(), weight.cols);
    const double addend = bias.data != nullptr ? double{Row(bias, 0)[n]} : 0.0;
    for (int64_t t = 0; t < in.rows; ++t) {
      Row(out, t)[n] = static_cast<float>(Dot(w, x_row(t)) + addend);
    }
  }
}

}  // namespace sluice::kernels
