#include "tests/kernels/sampling_rig.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "gtest/gtest.h"
#include "kernels/random.h"

namespace sluice::kernels::testing {
namespace {

constexpr float kGuard = 777.0f;
constexpr size_t kPadding = 3;

template <typename T, typename Member>
T* UploadColumn(Device& device, const std::vector<RowRules>& rows, Member member) {
  std::vector<T> column;
  for (const RowRules& row : rows) column.push_back(row.*member);
  return device.Upload(column);
}

struct LogitsOnDevice {
  TensorView view;
  std::vector<float> Read(Device& device) const {
    const auto all = device.Download<float>(view.data, view.rows() * view.stride);
    std::vector<float> values;
    for (int64_t s = 0; s < view.rows(); ++s) {
      const auto row = all.begin() + s * view.stride;
      values.insert(values.end(), row, row + view.cols());
    }
    return values;
  }
};

LogitsOnDevice UploadLogits(Device& device, const std::vector<float>& logits, size_t rows) {
  const size_t vocabulary = logits.size() / rows;
  std::vector<float> padded;
  for (size_t s = 0; s < rows; ++s) {
    const auto row = logits.begin() + static_cast<int64_t>(s * vocabulary);
    padded.insert(padded.end(), row, row + static_cast<int64_t>(vocabulary));
    padded.insert(padded.end(), kPadding, kGuard);
  }
  return {Matrix(device.Upload(padded), static_cast<int64_t>(rows),
                 static_cast<int64_t>(vocabulary), static_cast<int64_t>(vocabulary + kPadding))};
}

}  // namespace

SamplingBatch UploadRules(Device& device, const std::vector<RowRules>& rows) {
  SamplingBatch batch;
  batch.rows = static_cast<int32_t>(rows.size());
  batch.temperature = UploadColumn<float>(device, rows, &RowRules::temperature);
  batch.top_k = UploadColumn<int32_t>(device, rows, &RowRules::top_k);
  batch.top_p = UploadColumn<float>(device, rows, &RowRules::top_p);
  batch.min_p = UploadColumn<float>(device, rows, &RowRules::min_p);
  batch.presence = UploadColumn<float>(device, rows, &RowRules::presence);
  batch.frequency = UploadColumn<float>(device, rows, &RowRules::frequency);
  batch.repetition = UploadColumn<float>(device, rows, &RowRules::repetition);
  batch.seed = UploadColumn<uint64_t>(device, rows, &RowRules::seed);
  batch.choice = UploadColumn<uint32_t>(device, rows, &RowRules::choice);
  batch.position = UploadColumn<uint32_t>(device, rows, &RowRules::position);
  std::vector<int32_t> history_begin{0}, tokens, generated, bias_begin{0}, bias_tokens;
  std::vector<float> bias_values;
  for (const RowRules& row : rows) {
    for (const auto& [token, times] : row.history) {
      tokens.push_back(token);
      generated.push_back(times);
    }
    for (const auto& [token, value] : row.bias) {
      bias_tokens.push_back(token);
      bias_values.push_back(value);
    }
    history_begin.push_back(static_cast<int32_t>(tokens.size()));
    bias_begin.push_back(static_cast<int32_t>(bias_tokens.size()));
    batch.any_rules = batch.any_rules || !row.history.empty() || !row.bias.empty();
    batch.all_greedy = batch.all_greedy && row.temperature == 0.0f;
  }
  batch.history_begin = device.Upload(history_begin);
  batch.history_token = device.Upload(tokens);
  batch.history_generated = device.Upload(generated);
  batch.bias_begin = device.Upload(bias_begin);
  batch.bias_token = device.Upload(bias_tokens);
  batch.bias_value = device.Upload(bias_values);
  return batch;
}

std::vector<float> RunLogitRules(Device& device, const std::vector<float>& logits,
                                 const std::vector<RowRules>& rows) {
  const LogitsOnDevice on_device = UploadLogits(device, logits, rows.size());
  device.ops().ApplyLogitRules(on_device.view, UploadRules(device, rows));
  return on_device.Read(device);
}

std::vector<int32_t> RunSample(Device& device, const std::vector<float>& logits,
                               const std::vector<RowRules>& rows) {
  const LogitsOnDevice on_device = UploadLogits(device, logits, rows.size());
  const auto n = static_cast<int64_t>(rows.size());
  int32_t* ids = device.Upload(std::vector<int32_t>(rows.size() + 1, -99));
  device.ops().Sample(Vector(ids, n, DType::kI32), on_device.view, UploadRules(device, rows));
  std::vector<int32_t> result = device.Download<int32_t>(ids, n + 1);
  EXPECT_EQ(result.back(), -99);
  result.pop_back();
  return result;
}

Decision OracleSample(const std::vector<float>& logits, const RowRules& rules) {
  std::vector<int32_t> order;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i]) || logits[i] == INFINITY) return {};
    if (std::isfinite(logits[i])) order.push_back(static_cast<int32_t>(i));
  }
  if (order.empty()) return {};
  const auto logit = [&](int32_t id) { return double{logits[static_cast<size_t>(id)]}; };
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return logit(a) != logit(b) ? logit(a) > logit(b) : a < b;
  });
  if (rules.temperature == 0.0f) return {order[0], 1.0};
  const double top = logit(order[0]);
  const auto weight = [&](size_t i) {
    return std::exp((logit(order[i]) - top) / double{rules.temperature});
  };
  size_t kept = order.size();
  if (rules.top_k > 0) kept = std::min(kept, static_cast<size_t>(rules.top_k));
  double total = 0.0, margin = 1.0;
  for (size_t i = 0; i < kept; ++i) total += weight(i);
  if (rules.top_p < 1.0f) {
    double sum = 0.0;
    for (size_t i = 0; i < kept; ++i) {
      sum += weight(i);
      margin = std::min(margin, std::fabs(sum / total - double{rules.top_p}));
      if (sum >= double{rules.top_p} * total) {
        kept = i + 1;
        total = sum;
      }
    }
  }
  if (rules.min_p > 0.0f) {
    for (size_t i = 1; i < kept; ++i) {
      margin = std::min(margin, std::fabs(weight(i) - double{rules.min_p}));
      if (weight(i) < double{rules.min_p}) kept = i;
    }
    total = 0.0;
    for (size_t i = 0; i < kept; ++i) total += weight(i);
  }
  const double u = UniformDraw(rules.seed, rules.choice, rules.position, 0);
  double sum = 0.0;
  Decision decision{order[kept - 1], margin};
  bool found = false;
  for (size_t i = 0; i < kept; ++i) {
    sum += weight(i);
    if (i + 1 < kept) decision.margin = std::min(decision.margin, std::fabs(sum / total - u));
    if (!found && sum > u * total) {
      found = true;
      decision.id = order[i];
    }
  }
  return decision;
}

}  // namespace sluice::kernels::testing
