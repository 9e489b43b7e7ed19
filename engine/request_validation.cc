#include "engine/request_validation.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_set>

#include "absl/strings/str_cat.h"

namespace sluice::engine {
namespace {

// Written so that NaN, which compares false with everything, is outside.
absl::Status InClosedRange(const char* name, float value, float low, float high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return InvalidArgument(absl::StrCat(name, ": ", value, " is not in [", low, ", ", high, "]"));
}

absl::Status InHalfOpenRange(const char* name, float value, float low, float high) {
  if (value > low && value <= high) return absl::OkStatus();
  return InvalidArgument(absl::StrCat(name, ": ", value, " is not in (", low, ", ", high, "]"));
}

absl::Status InVocabulary(const char* name, int32_t token, int32_t vocabulary) {
  if (token >= 0 && token < vocabulary) return absl::OkStatus();
  return InvalidArgument(
      absl::StrCat(name, ": token ", token, " is not in the vocabulary of ", vocabulary));
}

absl::Status AtMost(const char* name, size_t count, int32_t most) {
  if (count <= static_cast<size_t>(most)) return absl::OkStatus();
  return InvalidArgument(absl::StrCat(name, ": ", count, " entries, at most ", most));
}

absl::Status ValidateSampling(const SamplingParams& sampling, int32_t vocabulary) {
  SLUICE_RETURN_IF_ERROR(InClosedRange("temperature", sampling.temperature, 0, 2));
  SLUICE_RETURN_IF_ERROR(InHalfOpenRange("top_p", sampling.top_p, 0, 1));
  SLUICE_RETURN_IF_ERROR(InClosedRange("min_p", sampling.min_p, 0, 1));
  SLUICE_RETURN_IF_ERROR(InClosedRange("presence_penalty", sampling.presence_penalty, -2, 2));
  SLUICE_RETURN_IF_ERROR(InClosedRange("frequency_penalty", sampling.frequency_penalty, -2, 2));
  SLUICE_RETURN_IF_ERROR(
      InHalfOpenRange("repetition_penalty", sampling.repetition_penalty, 0, kRepetitionPenaltyMax));
  if (sampling.top_k < 0)
    return InvalidArgument(absl::StrCat("top_k: ", sampling.top_k, " is less than 0 (off)"));
  SLUICE_RETURN_IF_ERROR(AtMost("logit_bias", sampling.logit_bias.size(), kLogitBiasMax));
  std::unordered_set<int32_t> seen;
  for (const auto& [token, bias] : sampling.logit_bias) {
    SLUICE_RETURN_IF_ERROR(InVocabulary("logit_bias", token, vocabulary));
    SLUICE_RETURN_IF_ERROR(InClosedRange("logit_bias", bias, -100, 100));
    if (!seen.insert(token).second)
      return InvalidArgument(absl::StrCat("logit_bias: token ", token, " is named twice"));
  }
  return absl::OkStatus();
}

absl::Status ValidateStop(const StopParams& stop, int32_t vocabulary) {
  if (stop.max_tokens < 1)
    return InvalidArgument(absl::StrCat("max_tokens: ", stop.max_tokens, " is less than 1"));
  if (stop.min_tokens < 0)
    return InvalidArgument(absl::StrCat("min_tokens: ", stop.min_tokens, " is less than 0"));
  if (stop.min_tokens > stop.max_tokens)
    return InvalidArgument(absl::StrCat("min_tokens: ", stop.min_tokens,
                                        " is more than max_tokens, which is ", stop.max_tokens));
  SLUICE_RETURN_IF_ERROR(AtMost("stop", stop.strings.size(), kStopStringsMax));
  for (const std::string& text : stop.strings) {
    if (text.empty()) return InvalidArgument("stop: an entry is empty");
    if (text.size() > static_cast<size_t>(kStopStringBytesMax))
      return InvalidArgument(absl::StrCat("stop: an entry has ", text.size(), " bytes, at most ",
                                          kStopStringBytesMax));
  }
  SLUICE_RETURN_IF_ERROR(AtMost("stop_token_ids", stop.token_ids.size(), kStopTokensMax));
  for (const int32_t token : stop.token_ids)
    SLUICE_RETURN_IF_ERROR(InVocabulary("stop_token_ids", token, vocabulary));
  return absl::OkStatus();
}

absl::Status ValidatePrompt(const std::vector<int32_t>& prompt, const ValidationLimits& limits) {
  if (prompt.empty()) return InvalidArgument("prompt: it is empty");
  if (prompt.size() >= static_cast<size_t>(limits.context_tokens))
    return InvalidArgument(absl::StrCat("prompt: ", prompt.size(),
                                        " tokens, but the context holds ", limits.context_tokens,
                                        " (of which at least 1 is for the answer)"));
  for (const int32_t token : prompt)
    SLUICE_RETURN_IF_ERROR(InVocabulary("prompt", token, limits.vocabulary));
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateRequest(const GenerateRequest& request, const ValidationLimits& limits) {
  if (request.n < 1 || request.n > kAnswersMax)
    return InvalidArgument(absl::StrCat("n: ", request.n, " is not in [1, ", kAnswersMax, "]"));
  SLUICE_RETURN_IF_ERROR(ValidateSampling(request.sampling, limits.vocabulary));
  SLUICE_RETURN_IF_ERROR(ValidateStop(request.stop, limits.vocabulary));
  return ValidatePrompt(request.prompt, limits);
}

}  // namespace sluice::engine
