#include "tests/kernels/oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/dequantize.h"

namespace sluice::kernels::testing {

std::vector<double> Q8Values(std::span<const float> x) {
  std::vector<double> result;
  for (size_t begin = 0; begin < x.size(); begin += 32) {
    const auto block = x.subspan(begin, std::min<size_t>(32, x.size() - begin));
    float largest = 0.0f;
    bool finite = true;
    for (const float value : block) {
      finite = finite && std::isfinite(value);
      largest = std::fmax(largest, std::fabs(value));
    }
    for (const float value : block) {
      if (!finite) {
        result.push_back(std::numeric_limits<double>::quiet_NaN());
      } else if (largest < 0x1p-100f) {
        result.push_back(0.0);
      } else {
        const float quotient = value * (127.0f / largest);
        double q = std::floor(double{quotient} + 0.5);
        if (q - quotient == 0.5 && std::fmod(q, 2.0) != 0.0) q -= 1.0;
        result.push_back(q * (largest / 127.0f));
      }
    }
  }
  return result;
}

std::vector<double> Q8Steps(std::span<const float> x) {
  std::vector<double> steps;
  for (size_t begin = 0; begin < x.size(); begin += 32) {
    const auto block = x.subspan(begin, std::min<size_t>(32, x.size() - begin));
    double largest = 0.0;
    for (const float value : block) largest = std::fmax(largest, std::fabs(value));
    steps.insert(steps.end(), block.size(), largest / 127.0);
  }
  return steps;
}

std::vector<double> ActivationValues(ActivationFormat format, std::span<const float> x) {
  if (format == ActivationFormat::kQ8) return Q8Values(x);
  return {x.begin(), x.end()};
}

std::vector<float> OracleProduct(const RawWeight& weight, std::span<const double> x) {
  std::vector<float> row(static_cast<size_t>(weight.cols)), result;
  for (int64_t n = 0; n < weight.rows; ++n) {
    DequantizeRow(weight.dtype, weight.bytes.data() + n * BytesOf(weight.dtype, weight.cols),
                  row.data(), weight.cols);
    double sum = 0.0;
    for (size_t i = 0; i < row.size(); ++i) sum += row[i] * x[i];
    result.push_back(static_cast<float>(sum));
  }
  return result;
}

std::vector<float> OracleRmsNorm(std::span<const float> x, std::span<const float> weight,
                                 float eps) {
  double mean = 0.0;
  for (const float value : x) mean += double{value} * value / static_cast<double>(x.size());
  std::vector<float> result;
  for (size_t i = 0; i < x.size(); ++i) {
    result.push_back(static_cast<float>(x[i] / std::sqrt(mean + eps) * weight[i]));
  }
  return result;
}

std::vector<float> OracleGated(std::span<const float> gate_up, GateKind kind) {
  const size_t n = gate_up.size() / 2;
  std::vector<float> result;
  for (size_t i = 0; i < n; ++i) {
    const double x = gate_up[i];
    double activated = 0.0;
    if (kind == GateKind::kSilu) {
      activated = x < -700.0 ? 0.0 : x / (1.0 + std::exp(-x));
    } else {
      activated = x / 2 * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    }
    result.push_back(static_cast<float>(activated * gate_up[n + i]));
  }
  return result;
}

std::vector<float> RopeTable(int64_t positions, int64_t rope_dim) {
  std::vector<float> table;
  for (int64_t p = 0; p < positions; ++p) {
    for (int64_t i = 0; i < rope_dim / 2; ++i) {
      const double angle =
          static_cast<double>(p) * std::pow(10000.0, -2.0 * static_cast<double>(i) / rope_dim);
      table.push_back(static_cast<float>(std::cos(angle)));
      table.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  return table;
}

std::vector<float> OracleRotate(std::span<const float> head, int64_t position, int64_t rope_dim,
                                RopePairs pairs) {
  std::vector<float> result(head.begin(), head.end());
  for (int64_t i = 0; i < rope_dim / 2; ++i) {
    const double angle =
        static_cast<double>(position) * std::pow(10000.0, -2.0 * static_cast<double>(i) / rope_dim);
    const bool adjacent = pairs == RopePairs::kAdjacent;
    const auto first = static_cast<size_t>(adjacent ? 2 * i : i);
    const auto second = static_cast<size_t>(adjacent ? 2 * i + 1 : i + rope_dim / 2);
    result[first] =
        static_cast<float>(head[first] * std::cos(angle) - head[second] * std::sin(angle));
    result[second] =
        static_cast<float>(head[first] * std::sin(angle) + head[second] * std::cos(angle));
  }
  return result;
}

}  // namespace sluice::kernels::testing
