#pragma once

#include <cstdint>

#include "engine/base/status.h"
#include "engine/request.h"

namespace sluice::engine {

// What a request may hold at most; the model's own numbers are ValidationLimits.
inline constexpr int32_t kAnswersMax = 8;
inline constexpr int32_t kLogitBiasMax = 1024;
inline constexpr int32_t kStopStringsMax = 16;
inline constexpr int32_t kStopStringBytesMax = 1024;
inline constexpr int32_t kStopTokensMax = 256;
inline constexpr float kRepetitionPenaltyMax = 10.0f;

struct ValidationLimits {
  int32_t vocabulary = 0;
  int32_t context_tokens = 0;  // most tokens of prompt and answer together
};

// InvalidArgument when the request can't be run as it stands. The message starts with the wire name
// of the field, then a colon, and names the value and the limit. `max_tokens` may reach beyond the
// context: its end then ends the answer. Any thread.
absl::Status ValidateRequest(const GenerateRequest& request, const ValidationLimits& limits);

}  // namespace sluice::engine
