#include "server/http/message.h"

#include "server/http/json_text.h"

namespace sluice::server {
namespace {

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string_view ReasonPhrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 499:
      return "Client Closed Request";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Unknown";
  }
}

std::string PercentDecode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      const int high = HexValue(text[i + 1]);
      const int low = HexValue(text[i + 2]);
      if (high >= 0 && low >= 0) {
        out += static_cast<char>(high * 16 + low);
        i += 2;
        continue;
      }
    }
    out += text[i];
  }
  return out;
}

HttpResponse HttpError(int status, std::string_view message, std::string_view code) {
  HttpResponse response;
  response.status = status;
  response.code = code;
  response.body = "{\"error\":{\"message\":";
  AppendJsonString(response.body, message);
  response.body += ",\"type\":";
  response.body += status >= 500   ? "\"server_error\""
                   : status == 429 ? "\"rate_limit_error\""
                                   : "\"invalid_request_error\"";
  response.body += ",\"param\":null,\"code\":";
  if (code.empty()) {
    response.body += "null";
  } else {
    AppendJsonString(response.body, code);
  }
  response.body += "}}";
  return response;
}

}  // namespace sluice::server
