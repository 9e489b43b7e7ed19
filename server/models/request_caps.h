#pragma once

#include <cstdint>
#include <string>

namespace sluice::server {

// Caps on one request, checked while it is read, before any work is done; the same for all
// dialects.
struct RequestCaps {
  int32_t answers_max = 8;            // n
  int32_t prompts_max = 128;          // prompts in one completion request
  int32_t request_answers_max = 256;  // n times prompts
  int32_t stop_max = 16;              // stop strings
  int32_t stop_token_max = 256;
  int32_t logit_bias_max = 1024;
  int32_t messages_max = 4096;
  int32_t template_values_max = 65536;  // in a chat's tool calls and template arguments
  bool priorities = false;              // whether a request may name a priority
  std::string tenant_header;  // in lower case: what names a request's tenant; empty: nothing does
};

}  // namespace sluice::server
