#include "server/http/router.h"

#include <utility>

namespace sluice::server {
namespace {

bool PathMatches(std::string_view pattern, std::string_view path) {
  if (!pattern.ends_with("/*")) return pattern == path;
  const std::string_view prefix = pattern.substr(0, pattern.size() - 1);
  return path.size() > prefix.size() && path.starts_with(prefix);
}

}  // namespace

void Router::Add(std::string method, std::string path, Handler handler, Admission admission) {
  routes_.push_back({std::move(method), std::move(path), std::move(handler), std::move(admission)});
}

Router::Match Router::Find(std::string_view method, std::string_view path) const {
  const std::string_view wanted = method == "HEAD" ? std::string_view("GET") : method;
  Match match;
  match.label = "other";
  std::string allow;
  for (const Route& route : routes_) {
    if (!PathMatches(route.path, path)) continue;
    match.label = route.path;
    if (route.method == wanted) {
      match.handler = &route.handler;
      if (route.admission) match.admission = &route.admission;
      return match;
    }
    if (!allow.empty()) allow += ", ";
    allow += route.method;
    if (route.method == "GET") allow += ", HEAD";
  }
  if (allow.empty()) {
    // The path is the client's text: a piece of it is enough.
    match.refusal = HttpError(404, "no such path: " + std::string(path.substr(0, 128)));
  } else {
    match.refusal = HttpError(405, "this path takes " + allow);
    match.refusal.headers.emplace_back("Allow", allow);
  }
  return match;
}

}  // namespace sluice::server
