#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/request.h"
#include "server/models/prompt.h"
#include "server/models/request_caps.h"
#include "server/models/service_terms.h"
#include "server/openai/api_error.h"
#include "server/openai/json_fields.h"

namespace sluice::server::openai {

// Caps that are checked while reading, before any work is done.
struct RequestCaps : server::RequestCaps {
  JsonLimits json;
};

// What /v1/chat/completions and /v1/completions have in common.
struct CommonFields {
  std::string model;  // empty: not said
  engine::SamplingParams sampling;
  std::optional<uint64_t> seed;
  engine::StopParams stop;  // max_tokens is not set here
  std::optional<int32_t> max_tokens;
  int32_t n = 1;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  bool return_token_ids = false;
  std::optional<bool> add_special_tokens;
  ServiceTerms terms;
};

// A prompt as the wire gives it: text, or ids.
using WirePrompt = std::variant<std::string, std::vector<int32_t>>;

struct ChatFields {
  CommonFields common;
  ChatPrompt prompt;
};

struct CompletionFields {
  CommonFields common;
  std::vector<WirePrompt> prompts;
  bool echo = false;
};

// Wire to fields: types, ranges of whole numbers, sizes, and features that are not there (an error
// with their name). Ranges of sampling parameters are the engine's to check, for all dialects
// alike. Unknown fields are ignored.
std::variant<ChatFields, ApiError> ReadChat(const boost::json::object& body,
                                            const RequestCaps& caps);
std::variant<CompletionFields, ApiError> ReadCompletion(const boost::json::object& body,
                                                        const RequestCaps& caps);

// Parts that /tokenize shares with chat.
void ReadMessages(const FieldReader& fields, const RequestCaps& caps, ChatPrompt* prompt);
void ReadTokenIds(const FieldReader& fields, std::string_view name,
                  const boost::json::array& values, std::vector<int32_t>* out);

}  // namespace sluice::server::openai
