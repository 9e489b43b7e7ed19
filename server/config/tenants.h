#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/tenant.h"

namespace sluice::server::config {

// Reads "NAME weight=2 running=4 open=100 kv=0.5" (all but the name may be left out) for each
// tenant; "*" stands for every tenant that is not named. InvalidArgument names the entry, the value
// and the limit.
absl::Status ParseTenants(const std::vector<std::string>& entries,
                          std::map<std::string, engine::TenantShare>* named,
                          engine::TenantShare* other);

}  // namespace sluice::server::config
