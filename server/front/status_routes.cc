#include "server/front/status_routes.h"

#include <cstdio>
#include <utility>

#include "server/http/json_text.h"

namespace sluice::server {
namespace {

HttpResponse StateResponse(const Readiness& readiness) {
  const Readiness::Snapshot now = readiness.snapshot();
  HttpResponse response;
  if (now.state == Readiness::State::kReady) {
    response.body = "{\"status\":\"ok\"}";
    return response;
  }
  response.status = 503;
  response.headers.emplace_back("Retry-After", "1");
  response.body = std::string("{\"status\":\"") + StateName(now.state) + "\"";
  if (now.state == Readiness::State::kLoading) {
    response.body += ",\"stage\":";
    AppendJsonString(response.body, now.stage);
    char progress[32];
    std::snprintf(progress, sizeof progress, ",\"progress\":%.3f", now.fraction);
    response.body += progress;
  }
  response.body += "}";
  return response;
}

}  // namespace

void AddStatusRoutes(Router* router, const Readiness* readiness, const Metrics* metrics,
                     FrontendPool* pool, const std::string& version) {
  using ExchangePtr = std::shared_ptr<Exchange>;
  router->Add("GET", "/livez", [readiness](ExchangePtr exchange) {
    HttpResponse response;
    const bool failed = readiness->snapshot().state == Readiness::State::kFailed;
    response.status = failed ? 503 : 200;
    response.body = failed ? "{\"status\":\"failed\"}" : "{\"status\":\"ok\"}";
    exchange->Reply(std::move(response));
  });
  for (const char* path : {"/readyz", "/health", "/ping"}) {
    router->Add("GET", path,
                [readiness](ExchangePtr exchange) { exchange->Reply(StateResponse(*readiness)); });
  }
  std::string body = "{\"version\":";
  AppendJsonString(body, version);
  body += "}";
  router->Add("GET", "/version", [body](ExchangePtr exchange) {
    HttpResponse response;
    response.body = body;
    exchange->Reply(std::move(response));
  });
  router->Add("GET", "/metrics", [metrics, pool](ExchangePtr exchange) {
    // Not refused when the pool is busy: that is when one wants to see them.
    pool->Post([metrics, exchange] {
      HttpResponse response;
      response.content_type = "text/plain; version=0.0.4; charset=utf-8";
      response.body = metrics->Render();
      exchange->Reply(std::move(response));
    });
  });
}

}  // namespace sluice::server
