#include "server/models/service_terms.h"

#include <charconv>

#include "server/base/clip.h"

namespace sluice::server {

namespace {

absl::Status CheckTarget(const char* name, int32_t value) {
  if (value >= 0 && value <= kTargetMsMax) return absl::OkStatus();
  return engine::InvalidArgument(std::string(name) + ": " + std::to_string(value) +
                                 " is not in [0, " + std::to_string(kTargetMsMax) + "]");
}

absl::Status ReadTarget(std::string_view name, std::string_view text, int32_t* target) {
  if (text.empty() || *target != 0) return absl::OkStatus();
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, *target);
  if (error == std::errc() && rest == end && *target >= 0 && *target <= kTargetMsMax)
    return absl::OkStatus();
  return engine::InvalidArgument(std::string(name) + ": \"" + Clip(text) +
                                 "\" is no whole number in [0, " + std::to_string(kTargetMsMax) +
                                 "]");
}

}  // namespace

absl::Status ReadTargetHeaders(std::string_view first_token, std::string_view inter_token,
                               ServiceTerms* terms) {
  SLUICE_RETURN_IF_ERROR(
      ReadTarget(kFirstTokenTargetHeader, first_token, &terms->first_token_target_ms));
  return ReadTarget(kInterTokenTargetHeader, inter_token, &terms->inter_token_target_ms);
}

absl::Status CheckTerms(const ServiceTerms& terms, const RequestCaps& caps) {
  if (terms.priority != 0 && !caps.priorities)
    return engine::InvalidArgument(
        "priority: this server takes none but 0 (its setting requests.priorities is off)");
  if (terms.priority < -kPriorityMax || terms.priority > kPriorityMax)
    return engine::InvalidArgument("priority: " + std::to_string(terms.priority) + " is not in [" +
                                   std::to_string(-kPriorityMax) + ", " +
                                   std::to_string(kPriorityMax) + "]");
  if (terms.cache_salt.size() > kCacheSaltBytesMax)
    return engine::InvalidArgument("cache_salt: " + std::to_string(terms.cache_salt.size()) +
                                   " bytes, at most " + std::to_string(kCacheSaltBytesMax));
  SLUICE_RETURN_IF_ERROR(CheckTarget("ttft_slo_ms", terms.first_token_target_ms));
  return CheckTarget("tpot_slo_ms", terms.inter_token_target_ms);
}

void ApplyTerms(const ServiceTerms& terms, std::string_view tenant,
                engine::GenerateRequest* request) {
  request->tenant = tenant.substr(0, kTenantBytesMax);
  request->priority = terms.priority;
  // A tenant can't see by the time an answer takes what another has asked before.
  if (!tenant.empty() || !terms.cache_salt.empty()) {
    request->cache_salt = request->tenant + '\n' + terms.cache_salt;
  }
  request->first_token_target = terms.first_token_target_ms / 1e3;
  request->inter_token_target = terms.inter_token_target_ms / 1e3;
}

}  // namespace sluice::server
