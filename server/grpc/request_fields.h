#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/request.h"
#include "server/models/prompt.h"
#include "server/models/request_caps.h"
#include "server/models/service_terms.h"
#include "sluice/v1/generate.pb.h"

namespace sluice::server::rpc {

namespace wire = ::sluice::v1;

using WirePrompt = std::variant<std::string, std::vector<int32_t>, ChatPrompt>;

struct GenerateFields {
  std::string model;  // empty: not said
  WirePrompt prompt;
  std::optional<bool> add_special_tokens;
  engine::SamplingParams sampling;
  std::optional<uint64_t> seed;
  engine::StopParams stop;  // max_tokens is not set here
  std::optional<int32_t> max_tokens;
  int32_t n = 1;
  ServiceTerms terms;
  bool return_prompt_token_ids = false;
};

// Wire to fields: what is missing, sizes, and ranges that are not the engine's to check.
// InvalidArgument names the field.
absl::StatusOr<GenerateFields> ReadGenerate(const wire::GenerateRequest& request,
                                            const RequestCaps& caps);
absl::StatusOr<ChatPrompt> ReadChat(const wire::ChatPrompt& chat, const RequestCaps& caps,
                                    std::optional<bool> add_special_tokens);

}  // namespace sluice::server::rpc
