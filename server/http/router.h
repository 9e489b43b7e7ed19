#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/exchange.h"
#include "server/http/message.h"

namespace sluice::server {

// Answers one request through the exchange, now or later. Called on an I/O thread: anything that
// takes time goes to the frontend pool.
using Handler = std::function<void(std::shared_ptr<Exchange>)>;

// Asked with the headers alone, before a body that waits for "100 Continue" is invited: a response
// refuses it.
using Admission = std::function<std::optional<HttpResponse>(const HttpRequest& head)>;

// Path and method to handler. Filled before the server starts, constant afterwards.
class Router {
 public:
  // `path` is exact, or ends in "/*": then it matches everything longer with that beginning.
  void Add(std::string method, std::string path, Handler handler, Admission admission = {});

  struct Match {
    const Handler* handler = nullptr;      // null: none, and `refusal` says why
    const Admission* admission = nullptr;  // null: none
    std::string_view label;                // the route's path, or "other": a metric's label
    HttpResponse refusal;                  // 404, or 405 with Allow
  };
  // HEAD finds GET's handler.
  Match Find(std::string_view method, std::string_view path) const;

 private:
  struct Route {
    std::string method;
    std::string path;
    Handler handler;
    Admission admission;
  };
  std::vector<Route> routes_;
};

}  // namespace sluice::server
