#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "kernels/check.h"
#include "kernels/dequantize.h"
#include "kernels/reference/activation.h"
#include "kernels/reference/reference_ops.h"

namespace sluice::kernels {
namespace {

void NormaliseRow(const ActivationView& out, int64_t row, const float* x, const float* weight,
                  float eps) {
  const auto n = static_cast<size_t>(out.cols);
  double squares = 0.0;
  for (size_t i = 0; i < n; ++i) squares += double{x[i]} * x[i];
  const double factor = 1.0 / std::sqrt(squares / static_cast<double>(n) + eps);
  std::vector<float> result(n);
  for (size_t i = 0; i < n; ++i) result[i] = static_cast<float>(x[i] * factor * weight[i]);
  WriteActivationRow(out, row, result, Refinement::kLargeBlocks);
}

double Silu(double x) { return x / (1.0 + std::exp(-x)); }

double Gelu(double x) {
  const double inner = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1.0 + std::tanh(inner));
}

}  // namespace

void ReferenceOps::DoEmbed(TensorView out, const WeightView& table, ConstTensorView ids) {
  const int64_t row_bytes = BytesOf(table.dtype, table.cols);
  for (int64_t t = 0; t < ids.rows(); ++t) {
    const int64_t id = IndexAt(ids, t);
    SLUICE_CHECK(id >= 0 && id < table.rows) << "id " << id << " of " << table.rows;
    DequantizeRow(table.dtype, table.data + id * row_bytes, Row(out, t), table.cols);
  }
}

void ReferenceOps::DoRmsNorm(ActivationView out, ConstTensorView x, ConstTensorView weight,
                             float eps) {
  for (int64_t t = 0; t < x.rows(); ++t) NormaliseRow(out, t, Row(x, t), Row(weight, 0), eps);
}

void ReferenceOps::DoAddRmsNorm(TensorView x, ActivationView out, ConstTensorView delta,
                                ConstTensorView weight, float eps) {
  for (int64_t t = 0; t < x.rows(); ++t) {
    float* row = Row(x, t);
    const float* addend = Row(delta, t);
    for (int64_t i = 0; i < x.cols(); ++i) row[i] += addend[i];
    NormaliseRow(out, t, row, Row(weight, 0), eps);
  }
}

void ReferenceOps::DoGatedActivation(ActivationView out, ConstTensorView gate_up, GateKind kind) {
  const auto n = static_cast<size_t>(out.cols);
  std::vector<float> result(n);
  for (int64_t t = 0; t < gate_up.rows(); ++t) {
    const float* gate = Row(gate_up, t);
    const float* up = gate + n;
    for (size_t i = 0; i < n; ++i) {
      const double activated = kind == GateKind::kSilu ? Silu(gate[i]) : Gelu(gate[i]);
      result[i] = static_cast<float>(activated * up[i]);
    }
    WriteActivationRow(out, t, result, Refinement::kLargeBlocks);
  }
}

void ReferenceOps::DoGatherRows(TensorView out, ConstTensorView x, ConstTensorView rows) {
  for (int64_t s = 0; s < rows.rows(); ++s) {
    const int64_t row = IndexAt(rows, s);
    SLUICE_CHECK(row >= 0 && row < x.rows()) << "row " << row << " of " << x.rows();
    std::memcpy(Row(out, s), Row(x, row), static_cast<size_t>(x.cols()) * sizeof(float));
  }
}

}  // namespace sluice::kernels
