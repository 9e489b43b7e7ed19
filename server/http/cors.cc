#include "server/http/cors.h"

#include <algorithm>

namespace sluice::server {
namespace {

bool Has(const std::vector<std::string>& origins, std::string_view origin) {
  return std::find(origins.begin(), origins.end(), origin) != origins.end();
}

// What Access-Control-Allow-Origin says; empty: not allowed.
std::string_view AllowedOrigin(const std::vector<std::string>& origins, const HttpRequest& head) {
  const std::string_view origin = head.Header("origin");
  if (origin.empty()) return {};
  if (Has(origins, "*")) return "*";
  return Has(origins, origin) ? origin : std::string_view();
}

}  // namespace

std::string CorsHeaders(const std::vector<std::string>& origins, const HttpRequest& head) {
  if (origins.empty()) return {};
  std::string lines;
  const std::string_view allowed = AllowedOrigin(origins, head);
  if (!allowed.empty()) {
    lines += "Access-Control-Allow-Origin: " + std::string(allowed) + "\r\n";
    lines += "Access-Control-Expose-Headers: X-Request-Id, Retry-After\r\n";
  }
  // Caches must not give one origin's answer to another.
  if (!Has(origins, "*")) lines += "Vary: Origin\r\n";
  return lines;
}

std::optional<HttpResponse> CorsPreflight(const std::vector<std::string>& origins,
                                          const HttpRequest& head) {
  if (head.method != "OPTIONS" || head.Header("access-control-request-method").empty() ||
      AllowedOrigin(origins, head).empty()) {
    return std::nullopt;
  }
  HttpResponse response;
  response.status = 204;
  response.headers = {
      {"Access-Control-Allow-Methods", "GET, HEAD, POST"},
      // "*" does not cover Authorization.
      {"Access-Control-Allow-Headers",
       "Authorization, Content-Type, X-Request-Id, X-Stainless-Arch, X-Stainless-Lang, "
       "X-Stainless-OS, X-Stainless-Package-Version, X-Stainless-Retry-Count, "
       "X-Stainless-Runtime, X-Stainless-Runtime-Version, X-Stainless-Timeout"},
      {"Access-Control-Max-Age", "600"}};
  return response;
}

}  // namespace sluice::server
