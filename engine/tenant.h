#pragma once

#include <cstdint>

namespace sluice::engine {

// What one tenant may have. Zero: no limit.
struct TenantShare {
  double weight = 1;              // of the service, against other tenants that have work
  int32_t running_max = 0;        // sequences with a slot
  int32_t open_max = 0;           // answers in the engine, running or waiting; more are refused
  double kv_fraction = 0;         // of the KV blocks held by its running sequences
  int64_t prompt_tokens_max = 0;  // of its answers in the engine; more are refused
  int64_t tokens_per_minute = 0;  // of prompts and answers; who has used them up is refused
  double first_token_target = 0;  // seconds, for requests that have none; 0: the server's
  double inter_token_target = 0;
};

}  // namespace sluice::engine
