#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "engine/request.h"
#include "server/models/request_caps.h"

namespace sluice::server {

// How a request is to be served beside others; the same for all dialects.
struct ServiceTerms {
  int32_t priority = 0;
  std::string cache_salt;
  int32_t inter_token_target_ms = 0;  // 0: the server's
};

inline constexpr int32_t kPriorityMax = 1000;  // either way
inline constexpr size_t kCacheSaltBytesMax = 256;
inline constexpr size_t kTenantBytesMax = 128;
inline constexpr int32_t kInterTokenTargetMsMax = 3'600'000;

// InvalidArgument names the field, the value and the limit.
absl::Status CheckTerms(const ServiceTerms& terms, const RequestCaps& caps);

// Puts the terms into a request. `tenant` is what the tenant's header says.
void ApplyTerms(const ServiceTerms& terms, std::string_view tenant,
                engine::GenerateRequest* request);

}  // namespace sluice::server
