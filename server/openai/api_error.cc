#include "server/openai/api_error.h"

#include "server/base/leading_field.h"
#include "server/http/json_text.h"

namespace sluice::server::openai {

std::string_view ApiError::type() const {
  if (status == 429) return "rate_limit_error";
  if (status == 404) return "not_found_error";
  if (status == 503) return "unavailable_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

std::string ErrorJson(const ApiError& error) {
  std::string out = "{\"error\":{\"message\":";
  AppendJsonString(out, error.message);
  out += ",\"type\":";
  AppendJsonString(out, error.type());
  out += ",\"param\":";
  if (error.param.empty()) {
    out += "null";
  } else {
    AppendJsonString(out, error.param);
  }
  out += ",\"code\":";
  if (error.code.empty()) {
    out += "null";
  } else {
    AppendJsonString(out, error.code);
  }
  out += "}}";
  return out;
}

HttpResponse ErrorResponse(const ApiError& error) {
  HttpResponse response;
  response.status = error.status;
  response.code = error.code;
  response.body = ErrorJson(error);
  if (error.retry_after_seconds > 0) {
    response.headers.emplace_back("Retry-After", std::to_string(error.retry_after_seconds));
  }
  return response;
}

ApiError FromStatus(const absl::Status& status, int retry_after_seconds) {
  ApiError error;
  error.message = engine::Message(status);
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      error.status = 400;
      error.param = LeadingField(error.message);
      error.code = "invalid_value";
      break;
    case absl::StatusCode::kOutOfRange:  // a prompt that does not fit
      error.status = 400;
      error.param = LeadingField(error.message);
      error.code = "context_length_exceeded";
      break;
    case absl::StatusCode::kNotFound:  // a model that is not there
      error.status = 404;
      error.param = LeadingField(error.message);
      error.code = "model_not_found";
      break;
    case absl::StatusCode::kResourceExhausted:
      error.status = 429;
      error.code = "queue_full";
      error.retry_after_seconds = retry_after_seconds;
      break;
    case absl::StatusCode::kUnavailable:
      error.status = 503;
      error.code = "unavailable";
      error.retry_after_seconds = retry_after_seconds;
      break;
    case absl::StatusCode::kUnimplemented:
      error.status = 501;
      break;
    default:
      error.status = 500;
      error.code = "internal_error";
  }
  return error;
}

}  // namespace sluice::server::openai
