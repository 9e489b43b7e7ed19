#pragma once

#include <cstdint>
#include <vector>

#include "tests/kernels/device.h"
#include "tests/kernels/random_data.h"

namespace sluice::kernels::testing {

struct AttentionConfig {
  int32_t head_dim = 64;
  int32_t kv_heads = 1;
  int32_t group = 1;  // query heads of a kv head
  int32_t block_size = 16;
  int32_t rope_dim = 64;
  DType kv_dtype = DType::kF32;
  RopePairs pairs = RopePairs::kAdjacent;
  ActivationFormat out = ActivationFormat::kF32;

  int32_t heads() const { return kv_heads * group; }
  int64_t out_cols() const { return int64_t{heads()} * head_dim; }
};

// What a model's projections would give for every position of a sequence.
struct SequenceData {
  std::vector<float> q, k, v;  // [positions, heads, D], [positions, G, D] twice
  int32_t positions = 0;
};
SequenceData RandomSequence(Random& random, const AttentionConfig& config, int32_t positions);

// The part of a sequence that is computed in one step.
struct Part {
  int32_t sequence = 0, first = 0, count = 0;
};

// Runs the attention of a few sequences over a paged pool, in any order of steps. The pool starts
// as NaN and holds a second layer that must stay so; blocks are assigned in random order; entries
// of the block table past a context are wild.
class AttentionRig {
 public:
  AttentionRig(Device& device, const AttentionConfig& config,
               const std::vector<SequenceData>& sequences, uint64_t block_seed);

  // RopeAndWriteKv and PagedAttention for these parts: the results [rows, out_cols], row by row.
  std::vector<float> Step(const std::vector<Part>& parts);
  // The rotated queries of the last step, [rows, out_cols].
  const std::vector<float>& last_q() const { return last_q_; }
  bool OtherLayerUntouched();

 private:
  AttentionLayout UploadLayout(const std::vector<Part>& parts);

  Device& device_;
  const AttentionConfig config_;
  const std::vector<SequenceData>& sequences_;
  std::vector<std::vector<int32_t>> blocks_;  // by sequence
  int64_t layer_bytes_ = 0;
  KvLayerView kv_;
  ConstTensorView rope_;
  std::vector<float> last_q_;
};

// The same by plain loops: [part rows, out_cols]; the output is not rounded to an activation
// format.
std::vector<float> OracleAttention(const AttentionConfig& config, const SequenceData& sequence,
                                   int32_t first, int32_t count);

}  // namespace sluice::kernels::testing
