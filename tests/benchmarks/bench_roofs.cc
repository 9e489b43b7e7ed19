#include "tests/benchmarks/bench_roofs.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <thread>
#include <vector>

namespace sluice::bench {
namespace {

using Clock = std::chrono::steady_clock;

// Four independent sums of 64-byte vectors (GCC's vector extension, so the compiler picks the
// widest loads).
using Line = uint64_t __attribute__((vector_size(64)));

__attribute__((target_clones("default", "avx2", "avx512f"))) uint64_t SumLines(const Line* lines,
                                                                               size_t count) {
  Line a{}, b{}, c{}, d{};
  for (size_t i = 0; i + 4 <= count; i += 4) {
    a += lines[i];
    b += lines[i + 1];
    c += lines[i + 2];
    d += lines[i + 3];
  }
  a += b + c + d;
  return a[0] + a[3] + a[7];
}

}  // namespace

std::string ProcessorName() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

double ReadBandwidth(size_t bytes, int threads, int repeats) {
  const size_t lines = bytes / sizeof(Line);
  std::vector<Line> data(lines, Line{1, 2, 3, 4, 5, 6, 7, 8});
  std::atomic<uint64_t> sink{0};
  std::vector<double> seconds;
  std::barrier gate(threads);
  std::vector<std::thread> pool;
  for (int t = 0; t < threads; ++t) {
    pool.emplace_back([&, t] {
      const size_t share = lines / static_cast<size_t>(threads);
      for (int r = 0; r < repeats; ++r) {
        gate.arrive_and_wait();
        const auto begin = Clock::now();
        sink += SumLines(data.data() + share * static_cast<size_t>(t), share);
        gate.arrive_and_wait();
        if (t == 0) seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
      }
    });
  }
  for (std::thread& thread : pool) thread.join();
  std::nth_element(seconds.begin(), seconds.begin() + repeats / 2, seconds.end());
  return static_cast<double>(bytes) / seconds[static_cast<size_t>(repeats / 2)] / 1e9;
}

}  // namespace sluice::bench
