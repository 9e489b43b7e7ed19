#pragma once

#include <string>
#include <variant>
#include <vector>

#include "server/config/serve_options.h"

namespace sluice::server {

// What the command line asks for besides serving: print this and end with this code.
struct PrintAndExit {
  std::string text;
  int code = 0;
  std::string notes;  // warnings, for stderr whatever the code
};

// `sluiced replay FILE`.
struct ReplayFile {
  std::string path;
};

// Reads `sluiced COMMAND ...` with the variables of `environment` ("NAME=VALUE" each) and the
// configuration file that either names. Errors become PrintAndExit with code 2.
std::variant<ServeOptions, ReplayFile, PrintAndExit> ParseCommandLine(
    const std::vector<std::string>& arguments, const std::vector<std::string>& environment = {});

}  // namespace sluice::server
