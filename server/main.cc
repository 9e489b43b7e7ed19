#include <unistd.h>

#include <cstdio>
#include <string>
#include <variant>
#include <vector>

#include "server/config/command_line.h"
#include "server/lifecycle/daemon.h"
#include "server/lifecycle/replay_command.h"
#include "server/lifecycle/simulate_command.h"

int main(int argc, char** argv) {
  using namespace sluice::server;  // NOLINT: main.cc is the server's
  PrepareProcess();
  std::vector<std::string> environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    environment.emplace_back(*entry);
  }
  auto parsed = ParseCommandLine(std::vector<std::string>(argv + 1, argv + argc), environment);
  if (const auto* print = std::get_if<PrintAndExit>(&parsed)) {
    std::fputs(print->notes.c_str(), stderr);
    std::fputs(print->text.c_str(), print->code == 0 ? stdout : stderr);
    return print->code;
  }
  if (const auto* replay = std::get_if<ReplayFile>(&parsed)) return RunReplay(replay->path);
  if (const auto* options = std::get_if<SimulateOptions>(&parsed)) return RunSimulate(*options);
  return RunDaemon(std::move(std::get<ServeOptions>(parsed)));
}
