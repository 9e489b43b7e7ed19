// What turning tokens into text costs the output thread, in nanoseconds of processor time a token:
// the best of several rounds.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iterator>

#include "engine/output/stream_decoder.h"
#include "tests/engine/tokenizer/model_spec.h"
#include "tests/support/test_paths.h"

namespace sluice::testing {
namespace {

double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void Measure(const char* name, const std::vector<int32_t>& ids,
             const std::vector<std::string>& stops) {
  double best = 1e9;
  size_t bytes = 0;
  for (int round = 0; round < 50; ++round) {
    const double start = CpuSeconds();
    engine::StreamDecoder decoder(&ModelTokenizer(), {.stop_strings = stops});
    bytes = 0;
    for (int32_t id : ids) bytes += decoder.Push(id).text.size();
    bytes += decoder.Finish().text.size();
    best = std::min(best, CpuSeconds() - start);
  }
  std::printf("%-32s %6zu tokens %7zu bytes %8.1f ns a token\n", name, ids.size(), bytes,
              best * 1e9 / static_cast<double>(ids.size()));
}

void Run() {
  std::ifstream in(GoldenDir() + "/text.txt", std::ios::binary);
  const std::string prose((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const std::vector<int32_t> ids =
      ModelTokenizer().Encode(prose, engine::ControlTokens::kPlainText).value();
  Measure("prose", ids, {});
  Measure("prose, one stop string", ids, {"\nUser:"});
  Measure("prose, four stop strings", ids, {"\nUser:", "<|im_end|>", "</s>", " theatrically"});
}

}  // namespace
}  // namespace sluice::testing

int main() { sluice::testing::Run(); }
