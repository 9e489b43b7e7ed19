#pragma once

#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "server/base/clip.h"
#include "server/http/message.h"

namespace sluice::server::openai {

// An error as OpenAI's API states it. `message` names field, value and limit.
struct ApiError {
  int status = 400;
  std::string message;
  std::string param;            // the field; empty: null
  std::string code;             // a word for programs; empty: null
  int retry_after_seconds = 0;  // 0: no Retry-After

  std::string_view type() const;
};

// {"error":{"message","type","param","code"}}
std::string ErrorJson(const ApiError& error);
HttpResponse ErrorResponse(const ApiError& error);

// The one place where statuses become HTTP. A message "field: ..." gives the param.
ApiError FromStatus(const absl::Status& status, int retry_after_seconds);

using server::Clip;

}  // namespace sluice::server::openai
