#pragma once

#include <string>
#include <variant>
#include <vector>

#include "server/config/print_and_exit.h"
#include "server/config/serve_options.h"
#include "server/config/simulate_options.h"

namespace sluice::server {

// `sluiced replay FILE`.
struct ReplayFile {
  std::string path;
};

// Reads `sluiced COMMAND ...` with the variables of `environment` ("NAME=VALUE" each) and the
// configuration file that either names. Errors become PrintAndExit with code 2.
std::variant<ServeOptions, ReplayFile, SimulateOptions, PrintAndExit> ParseCommandLine(
    const std::vector<std::string>& arguments, const std::vector<std::string>& environment = {});

}  // namespace sluice::server
