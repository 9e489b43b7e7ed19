#pragma once

#include <string>

#include "engine/load.h"

namespace sluice::server {

// Shows how loading goes on stderr: a bar on a terminal, else a line at each quarter of a stage.
// One thread.
class ProgressDisplay {
 public:
  ProgressDisplay();
  void Show(const engine::LoadProgress& progress);
  // Ends the bar's line.
  void End();

 private:
  const bool terminal_;
  std::string stage_;
  int quarter_ = -1;
  int percent_ = -1;
  bool open_ = false;
};

}  // namespace sluice::server
