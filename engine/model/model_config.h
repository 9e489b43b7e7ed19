#pragma once

#include <cstdint>
#include <string>

#include "engine/base/status.h"
#include "engine/model/gguf.h"
#include "kernels/ops.h"

namespace sluice::engine {

// A decoder-only transformer as data: what one decoder needs to know to be any of the supported
// families. E width, H query heads, G kv heads, D head size, F ffn width, V vocabulary.
struct ModelConfig {
  std::string architecture;
  int32_t layers = 0;
  int32_t width = 0;           // E
  int32_t heads = 0;           // H, a multiple of G
  int32_t kv_heads = 0;        // G
  int32_t head_dim = 0;        // D, a multiple of 8, at most 256
  int32_t ffn_width = 0;       // F
  int32_t vocabulary = 0;      // V, rows of the embedding
  int32_t context_tokens = 0;  // most positions that the model attends correctly
  float norm_epsilon = 0;
  float attention_scale = 0;
  kernels::GateKind gate = kernels::GateKind::kSilu;

  // Rotary embedding: pair i of a head at position p turns by p / rope_scale * base^(-2i/R) / f[i],
  // f being the file's rope_freqs.weight (1 where there is none).
  kernels::RopePairs rope_pairs = kernels::RopePairs::kAdjacent;
  int32_t rope_dims = 0;  // R, even, at most D
  double rope_base = 0;
  double rope_scale = 1;
};

// Reads and checks the `<architecture>.*` keys. InvalidArgument names the key, the value and the
// limit; an unknown architecture is answered with the list of those supported, and a feature that
// would change the arithmetic (experts, other rope scalings) with its key.
absl::StatusOr<ModelConfig> ModelConfigFromGguf(const GgufFile& file);

}  // namespace sluice::engine
