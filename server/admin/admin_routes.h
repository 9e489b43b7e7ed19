#pragma once

#include <string>

#include "server/base/frontend_pool.h"
#include "server/http/router.h"
#include "server/models/model_registry.h"

namespace sluice::server {

// GET /admin/state: what runs and what waits, in JSON, without a word of prompts or answers. 401
// without the key. Registry and pool outlive the router's use and the engines.
void AddAdminRoutes(Router* router, const ModelRegistry* registry, FrontendPool* pool,
                    std::string key);

}  // namespace sluice::server
