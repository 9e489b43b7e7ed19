#pragma once

#include <cstdint>

namespace sluice::kernels {

// Sampling parameters of S rows of logits as arrays (device memory). "Off" values leave a rule out.
struct SamplingBatch {
  int32_t rows = 0;                    // S
  const float* temperature = nullptr;  // [S] 0: greedy (the lowest id wins a tie)
  const int32_t* top_k = nullptr;      // [S] 0: off
  const float* top_p = nullptr;        // [S] 1: off
  const float* min_p = nullptr;        // [S] 0: off
  const float* presence = nullptr;     // [S] 0: off; over generated tokens
  const float* frequency = nullptr;    // [S] 0: off; over generated tokens
  const float* repetition =
      nullptr;  // [S] 1: off; over prompt and generated tokens (CTRL, Keskar et al. 2019)
  // Randomness is a pure function of these (kernels/random.h).
  const uint64_t* seed = nullptr;      // [S]
  const uint32_t* choice = nullptr;    // [S] index of the answer within its request
  const uint32_t* position = nullptr;  // [S] tokens generated before this one
  // Tokens seen by row s: entries history_begin[s] .. history_begin[s+1], each token once. Only
  // rows whose penalties are on have entries.
  const int32_t* history_begin = nullptr;  // [S+1]
  const int32_t* history_token = nullptr;
  const int32_t* history_generated = nullptr;  // times generated; 0: seen in the prompt only
  // Added to logits, after penalties; -infinity forbids a token.
  const int32_t* bias_begin = nullptr;  // [S+1]
  const int32_t* bias_token = nullptr;
  const float* bias_value = nullptr;
  // Known to the host.
  bool any_rules = false;  // some row has penalties or bias
  bool all_greedy = true;  // every temperature is 0
};

}  // namespace sluice::kernels
