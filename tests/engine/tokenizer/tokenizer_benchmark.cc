// How fast text becomes tokens, on one core: ordinary text, and texts made to be slow. Prints MB/s
// of processor time, the best of several rounds, since a busy machine only ever makes it slower.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <thread>

#include "engine/tokenizer/pretokenizer.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/engine/tokenizer/model_spec.h"
#include "tests/support/test_paths.h"

namespace sluice::testing {
namespace {

using engine::ControlTokens;

// Of the whole process: time that others take from it does not count.
double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double BestSeconds(int rounds, const std::function<void()>& work) {
  double best = 1e9;
  for (int i = 0; i < rounds; ++i) {
    const double start = CpuSeconds();
    work();
    best = std::min(best, CpuSeconds() - start);
  }
  return best;
}

void Measure(const char* name, const std::string& text, int rounds) {
  const engine::Tokenizer& tokenizer = ModelTokenizer();
  size_t tokens = 0;
  const double warm = BestSeconds(
      rounds, [&] { tokens = tokenizer.Encode(text, ControlTokens::kParse).value().size(); });
  // A thread of its own begins with an empty word cache.
  const double cold = BestSeconds(rounds, [&] {
    std::thread([&] { (void)tokenizer.Encode(text, ControlTokens::kParse).value(); }).join();
  });
  std::printf("%-28s %9zu bytes %8zu tokens %8.1f MB/s (new thread %8.1f)\n", name, text.size(),
              tokens, text.size() / warm / 1e6, text.size() / cold / 1e6);
}

std::string Repeat(std::string_view unit, size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += unit;
  return text;
}

void Run() {
  std::ifstream in(GoldenDir() + "/text.txt", std::ios::binary);
  const std::string prose((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  constexpr size_t kMany = 1 << 20;
  Measure("prose, one page", prose, 50);
  Measure("prose, repeated", Repeat(prose, kMany), 10);
  size_t pieces = 0;
  const auto splitter = engine::Pretokenizer::Create("smollm").value();
  const std::string long_prose = Repeat(prose, kMany);
  const double split = BestSeconds(10, [&] {
    (void)splitter->Split(long_prose, [&](std::string_view) { return ++pieces > 0; });
  });
  std::printf("%-28s %9zu bytes %26.1f MB/s\n", "prose, only split", long_prose.size(),
              long_prose.size() / split / 1e6);
  Measure("one letter", std::string(kMany, 'a'), 3);
  Measure("blanks", std::string(kMany, ' '), 3);
  Measure("digits", Repeat("0123456789", kMany), 3);
  Measure("newlines", std::string(kMany, '\n'), 3);
  Measure("one mark", std::string(kMany, '='), 3);
  Measure("emoji", Repeat("\xF0\x9F\x98\x80", kMany), 3);
  Measure("Chinese", Repeat("\xE4\xBD\xA0\xE5\xA5\xBD", kMany), 3);
  Measure("half a control token", Repeat("<|im_star", kMany), 3);
  Measure("opening marks", std::string(kMany, '<'), 3);
  std::mt19937_64 random(1);
  std::string bytes(kMany, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  Measure("random bytes", bytes, 3);
  for (char& byte : bytes) byte = static_cast<char>('a' + random() % 26);
  Measure("random letters, one word", bytes, 3);
}

}  // namespace
}  // namespace sluice::testing

int main() { sluice::testing::Run(); }
