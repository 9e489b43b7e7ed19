#pragma once

#include <string_view>

#include "engine/request.h"

namespace sluice::server {

// How an answer ended, in vLLM's words where it has one: for the wire and for logs.
inline std::string_view FinishName(engine::FinishReason reason) {
  switch (reason) {
    case engine::FinishReason::kStop:
      return "stop";
    case engine::FinishReason::kLength:
      return "length";
    case engine::FinishReason::kCancelled:
      return "abort";
    case engine::FinishReason::kError:
      return "error";
    case engine::FinishReason::kExpired:
      return "expired";
    case engine::FinishReason::kNone:
      break;
  }
  return "none";
}

}  // namespace sluice::server
