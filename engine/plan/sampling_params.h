#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace sluice::engine {

// How the next token of a sequence is chosen from its logits. Plain data, valid ranges are checked
// where a request is made (ValidateRequest). "Off" values leave a rule out.
struct SamplingParams {
  float temperature = 1.0f;         // 0: greedy
  int32_t top_k = 0;                // 0: off
  float top_p = 1.0f;               // 1: off
  float min_p = 0.0f;               // 0: off
  float presence_penalty = 0.0f;    // over generated tokens
  float frequency_penalty = 0.0f;   // over generated tokens
  float repetition_penalty = 1.0f;  // over prompt and generated tokens
  uint64_t seed = 0;                // always set by the time a request is submitted
  uint32_t choice = 0;              // index of the answer within its request
  std::vector<std::pair<int32_t, float>> logit_bias;  // token, added value; each token once
  // While fewer than min_tokens tokens are generated, these can't be chosen.
  int32_t min_tokens = 0;
  std::vector<int32_t> end_ids;

  bool UsesPenalties() const {
    return presence_penalty != 0.0f || frequency_penalty != 0.0f || repetition_penalty != 1.0f;
  }
};

}  // namespace sluice::engine
