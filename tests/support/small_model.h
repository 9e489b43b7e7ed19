#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/gguf_writer.h"

namespace sluice::testing {

// A made-up model of the llama family, small enough to be computed by hand: random weights, a
// byte-level vocabulary.
struct SmallModel {
  uint32_t layers = 2, width = 64, heads = 4, kv_heads = 2, head_dim = 16, ffn = 96;
  uint32_t vocabulary = 80, context = 128;
  uint64_t seed = 1;
  // ggml's type numbers: 0 F32, 1 F16, 8 Q8_0.
  uint32_t matrix_type = 8;
  uint32_t value_type = 8;  // of attn_v alone
  bool tied = true;
  std::string rope_scaling;  // empty: no key
  float rope_factor = 1;
  std::vector<float> rope_freqs;  // empty: no tensor
  float attention_scale = 0;      // 0: no key

  GgufWriter Write() const;
};

// The bytes of [rows, cols] random numbers around 0 in a type, and the values they stand for.
struct EncodedMatrix {
  std::string bytes;
  std::vector<float> values;
};
EncodedMatrix RandomMatrix(uint64_t seed, uint32_t rows, uint32_t cols, uint32_t type);
// The seed that SmallModel::Write uses for the tensor with this name.
uint64_t SeedOf(const SmallModel& model, const std::string& tensor);

}  // namespace sluice::testing
