#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/sampling_batch.h"
#include "tests/kernels/device.h"

namespace sluice::kernels::testing {

// One row's parameters, everything off.
struct RowRules {
  float temperature = 1.0f;
  int32_t top_k = 0;
  float top_p = 1.0f;
  float min_p = 0.0f;
  float presence = 0.0f;
  float frequency = 0.0f;
  float repetition = 1.0f;
  uint64_t seed = 1;
  uint32_t choice = 0;
  uint32_t position = 0;
  std::vector<std::pair<int32_t, int32_t>> history;  // token, times generated
  std::vector<std::pair<int32_t, float>> bias;
};

SamplingBatch UploadRules(Device& device, const std::vector<RowRules>& rows);

// Logits [rows.size(), V] after the rules; drawn tokens. The device's copy has a gap after each
// row.
std::vector<float> RunLogitRules(Device& device, const std::vector<float>& logits,
                                 const std::vector<RowRules>& rows);
std::vector<int32_t> RunSample(Device& device, const std::vector<float>& logits,
                               const std::vector<RowRules>& rows);

// What a row's draw must be, in double by an own road, and how near it was to another answer: the
// least distance of the draw from an edge between two tokens, or of a cut (top-p, min-p) from
// falling one candidate elsewhere, as a share of all weight.
struct Decision {
  int32_t id = -1;
  double margin = 1.0;
};
Decision OracleSample(const std::vector<float>& logits, const RowRules& rules);

}  // namespace sluice::kernels::testing
