#pragma once

#include <chrono>
#include <string>
#include <variant>
#include <vector>

#include "engine/base/log.h"
#include "engine/load.h"
#include "server/front/front.h"

namespace sluice::server {

// Everything that `sluiced serve` is told.
struct ServeOptions {
  engine::ModelOptions model;
  FrontOptions front;
  std::chrono::milliseconds grace{30'000};
  engine::LogLevel log_level = engine::LogLevel::kInfo;
};

// What the command line asks for besides serving: print this and end with this code.
struct PrintAndExit {
  std::string text;
  int code = 0;
};

// Reads `sluiced COMMAND ...`. Errors become PrintAndExit with code 2.
std::variant<ServeOptions, PrintAndExit> ParseCommandLine(
    const std::vector<std::string>& arguments);

}  // namespace sluice::server
