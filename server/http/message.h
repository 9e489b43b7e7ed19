#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/http/byte_budget.h"

namespace sluice::server {

struct HttpRequest {
  std::string method;
  std::string path;   // without the query, not percent-decoded
  std::string query;  // without the '?'
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string body;
  std::shared_ptr<ByteHold> body_hold;  // the body's share of the budget for bodies; may be null
  std::string answer_headers;           // lines that every answer to it carries
  bool http11 = true;
  bool keep_alive = true;
  std::string id;  // X-Request-Id: the client's when it is sound, else made here
  std::chrono::steady_clock::time_point arrival;  // when its last byte was read

  // Empty when absent. `name` in lower case.
  std::string_view Header(std::string_view name) const {
    for (const auto& [key, value] : headers) {
      if (key == name) return value;
    }
    return {};
  }
};

// A body and its share of the budget for bodies.
struct HeldBody {
  std::string text;
  std::shared_ptr<ByteHold> hold;
};

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;  // besides those that framing makes
  std::string code;  // of an error, for the metrics: a word of ours such as "queue_full"
};

std::string_view ReasonPhrase(int status);

// "%2F" to "/"; malformed escapes stay as they are.
std::string PercentDecode(std::string_view text);

// {"error":{"message","type","param":null,"code"}} in the form of OpenAI's API, for faults that are
// found before a dialect is known.
HttpResponse HttpError(int status, std::string_view message, std::string_view code = {});

}  // namespace sluice::server
