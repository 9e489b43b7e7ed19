#include "tests/kernels/oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/dequantize.h"

namespace sluice::kernels::testing {

namespace {

double NearestEven(float x) {
  const double nearest = std::floor(double{x} + 0.5);
  return nearest - x == 0.5 && std::fmod(nearest, 2.0) != 0.0 ? nearest - 1.0 : nearest;
}

// Largest magnitude of each block of 32; NaN for one that is not finite.
std::vector<float> BlockPeaks(std::span<const float> x) {
  std::vector<float> peaks;
  for (size_t i = 0; i < x.size(); ++i) {
    if (i % 32 == 0) peaks.push_back(0.0f);
    float& peak = peaks.back();
    if (!std::isfinite(x[i])) peak = std::numeric_limits<float>::quiet_NaN();
    if (!std::isnan(peak)) peak = std::max(peak, std::fabs(x[i]));
  }
  return peaks;
}

}  // namespace

std::vector<double> Q8Values(std::span<const float> x) {
  const std::vector<float> peaks = BlockPeaks(x);
  const auto scale_of = [](float peak) { return peak < 0x1p-100f ? 0.0f : peak / 127.0f; };
  double squares = 0.0;
  for (const float peak : peaks) squares += std::pow(double{scale_of(peak)}, 2);
  std::vector<double> result;
  for (size_t i = 0; i < x.size(); ++i) {
    const float peak = peaks[i / 32], scale = scale_of(peak);
    if (!(scale > 0.0f)) {
      result.push_back(scale);  // zero or NaN
      continue;
    }
    const double q = NearestEven(x[i] * (127.0f / peak));
    double value = q * scale;
    if (double{scale} * scale * static_cast<double>(peaks.size()) > squares) {
      const auto rest = static_cast<float>(x[i] - value);
      value += NearestEven(rest * (254.0f / scale)) * (scale / 254.0f);
    }
    result.push_back(value);
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
