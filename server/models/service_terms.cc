#include "server/models/service_terms.h"

namespace sluice::server {

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
  if (terms.inter_token_target_ms < 0 || terms.inter_token_target_ms > kInterTokenTargetMsMax)
    return engine::InvalidArgument("tpot_slo_ms: " + std::to_string(terms.inter_token_target_ms) +
                                   " is not in [0, " + std::to_string(kInterTokenTargetMsMax) +
                                   "]");
  return absl::OkStatus();
}

void ApplyTerms(const ServiceTerms& terms, std::string_view tenant,
                engine::GenerateRequest* request) {
  request->tenant = tenant.substr(0, kTenantBytesMax);
  request->priority = terms.priority;
  // A tenant can't see by the time an answer takes what another has asked before.
  if (!tenant.empty() || !terms.cache_salt.empty()) {
    request->cache_salt = request->tenant + '\n' + terms.cache_salt;
  }
  request->inter_token_target = terms.inter_token_target_ms / 1e3;
}

}  // namespace sluice::server
