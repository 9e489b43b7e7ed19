// Runs one fuzz target over files, without libFuzzer: the seeds and what fuzzing once found go
// through every build of the tests.

#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "tests/fuzz/input.h"

namespace {

void Replay(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

}  // namespace

int main(int argc, char** argv) {
  size_t files = 0;
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
      if (!entry.is_regular_file()) continue;
      std::cerr << entry.path().string() << std::endl;  // the last line names the culprit
      Replay(entry.path());
      ++files;
    }
  }
  std::cerr << files << " inputs\n";
  return files == 0 ? 1 : 0;
}
