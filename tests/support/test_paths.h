#pragma once

#include <cstdlib>
#include <string>

namespace sluice::testing {

// The folder with the reference data; CTest sets it.
inline std::string GoldenDir() {
  const char* dir = std::getenv("SLUICE_GOLDEN_DIR");
  return dir ? dir : "tests/golden";
}

// The default model's file, in the place where run.sh keeps it unless SLUICE_TEST_MODEL names
// another.
inline std::string DefaultModelPath() {
  if (const char* path = std::getenv("SLUICE_TEST_MODEL")) return path;
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::string root = cache && *cache ? cache : std::string(home ? home : "") + "/.cache";
  return root + "/sluice/SmolLM2-135M-Instruct.Q4_1.gguf";
}

}  // namespace sluice::testing
