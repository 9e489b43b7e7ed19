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
  int32_t first_token_target_ms = 0;  // 0: its tenant's or the server's
  int32_t inter_token_target_ms = 0;
};

inline constexpr int32_t kPriorityMax = 1000;  // either way
inline constexpr size_t kCacheSaltBytesMax = 256;
inline constexpr size_t kTenantBytesMax = 128;
inline constexpr int32_t kTargetMsMax = 3'600'000;

// InvalidArgument names the field, the value and the limit.
absl::Status CheckTerms(const ServiceTerms& terms, const RequestCaps& caps);

// What headers (or metadata) say of targets, where the body says nothing: the names that gateways
// of the llm-d project send. InvalidArgument names the header.
inline constexpr std::string_view kFirstTokenTargetHeader = "x-llm-d-slo-ttft-ms";
inline constexpr std::string_view kInterTokenTargetHeader = "x-llm-d-slo-tpot-ms";
absl::Status ReadTargetHeaders(std::string_view first_token, std::string_view inter_token,
                               ServiceTerms* terms);

// Puts the terms into a request. `tenant` is what the tenant's header says.
void ApplyTerms(const ServiceTerms& terms, std::string_view tenant,
                engine::GenerateRequest* request);

}  // namespace sluice::server
