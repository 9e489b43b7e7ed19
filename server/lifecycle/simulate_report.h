#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/simulate/simulator.h"

namespace sluice::server {

// What came of a simulation, to be printed.
struct SimulationReport {
  std::string load;                // one line
  std::vector<std::string> notes;  // what was done to the load; a line each
  engine::SimulatedServer server;
  size_t fitted_steps = 0;  // that the cost was fitted to; 0: it was given
  engine::SimulationOptions options;
  engine::RunFigures simulated;
  std::optional<engine::RunFigures> recorded;  // to compare with
  double wall_seconds = 0;
};

std::string PrintTable(const SimulationReport& report);
// One object, with a line's end.
std::string PrintJson(const SimulationReport& report);

}  // namespace sluice::server
