#pragma once

#include "server/openai/request_fields.h"

namespace sluice::server::openai {

// Reads what chat and completions have in common into *out. `max_tokens_low`: what max_tokens must
// be at least.
void ReadCommon(const FieldReader& fields, const RequestCaps& caps, int64_t max_tokens_low,
                CommonFields* out);

// Fails on features that are known and not there; `chat` adds those of chat alone.
void RefuseMissingFeatures(const FieldReader& fields, bool chat);

}  // namespace sluice::server::openai
