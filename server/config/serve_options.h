#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "engine/base/log.h"
#include "engine/load.h"
#include "server/front/front.h"

namespace sluice::server {

// Everything that `sluiced serve` is told.
struct ServeOptions {
  engine::ModelOptions model;
  FrontOptions front;
  // On SIGTERM: "not ready" that long before nothing more is accepted, so that load balancers stop
  // sending first; then what runs has `grace` to finish.
  std::chrono::milliseconds lame_duck{5'000};
  std::chrono::milliseconds grace{30'000};
  std::vector<std::string> tenants;  // as written; model.engine has what they mean
  engine::LogLevel log_level = engine::LogLevel::kInfo;
  engine::LogFormat log_format = engine::LogFormat::kText;
  int log_repeats = 100;              // lines of one place in the code in a second; 0: no limit
  bool log_prompts = false;           // the beginning of each prompt
  std::vector<std::string> warnings;  // about the configuration, for the log; a line each
};

}  // namespace sluice::server
