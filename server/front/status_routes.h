#pragma once

#include <string>

#include "server/base/frontend_pool.h"
#include "server/http/router.h"
#include "server/metrics/metrics.h"
#include "server/models/readiness.h"

namespace sluice::server {

// /livez, /readyz, /health, /ping, /version and /metrics. All arguments outlive the router's use.
void AddStatusRoutes(Router* router, const Readiness* readiness, const Metrics* metrics,
                     FrontendPool* pool, const std::string& version);

}  // namespace sluice::server
