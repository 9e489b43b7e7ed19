#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/config/settings/effective.h"

namespace sluice::server::config {

// The configuration file's path, when no --config is given.
inline constexpr std::string_view kConfigVariable = "SLUICE_CONFIG";

// Reads the SLUICE_* variables of `environment` ("NAME=VALUE" each). An empty value counts as not
// set. Warns of names that no setting has, with the nearest one, but not of SLUICE_TEST_*.
//
// Kubernetes sets variables of its own for every Service: for one named sluice SLUICE_SERVICE_HOST,
// SLUICE_PORT=tcp://10.0.0.1:8000, SLUICE_PORT_8000_TCP_ADDR and so on, and for one named
// sluice-http even SLUICE_HTTP_PORT=tcp://... These are ignored: by their form, and where a
// setting has that name by their value.
Reading ReadEnvironment(const Schema& schema, const std::vector<std::string>& environment);

// The last value of `name`, or empty.
std::string VariableIn(const std::vector<std::string>& environment, std::string_view name);

}  // namespace sluice::server::config
