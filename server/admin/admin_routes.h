#pragma once

#include <string>

#include "server/http/router.h"
#include "server/models/model_registry.h"

namespace sluice::server {

// GET /admin/state: what runs and what waits, in JSON, without a word of prompts or answers. 401
// without the key. The registry outlives the router's use.
void AddAdminRoutes(Router* router, const ModelRegistry* registry, std::string key);

}  // namespace sluice::server
