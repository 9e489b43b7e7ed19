#pragma once

#include <string>
#include <vector>

namespace sluice::server {

// What the command line asks for when there is nothing to run: print this and end with this code.
struct PrintAndExit {
  std::string text;
  int code = 0;
  std::string notes;  // warnings, for stderr whatever the code
};

// Each text on a line of its own, after `prefix`.
inline std::string Lines(const std::string& prefix, const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += prefix + text + "\n";
  return out;
}

inline PrintAndExit UsageError(const std::string& command, const std::vector<std::string>& errors) {
  return {Lines("sluiced " + command + ": ", errors) + "(sluiced " + command +
              " --help lists the options)\n",
          2, ""};
}

}  // namespace sluice::server
