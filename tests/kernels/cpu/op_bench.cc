// op_bench [--threads N] [--cpu-time] [--best] [SECTION...]: the fast CPU backend's operations
// beside this machine's limits, measured in the same run. Sections: limits, pool, matmul,
// attention, sampling, model, or avx2 or avx512 to see one of the two, or Q4_1, Q4_0, Q8_0,
// Q4_1_f32, F16, F32 to see products of some formats; all without any. --cpu-time, with one thread,
// counts processor time instead of time passed; --best prints best times instead of medians.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "kernels/cpu/thread_pool.h"
#include "tests/kernels/cpu/bench_ops.h"
#include "tests/kernels/cpu/limits.h"

namespace sluice::kernels::bench {
namespace {

volatile int64_t g_sink;

std::string ProcessorName() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

// Units a second of `run(rounds)` on all threads at once, `units` a round.
template <typename Run>
double Rate(int threads, double units, Run run) {
  constexpr int64_t kRounds = 400'000;
  ThreadPool pool(threads);
  const double seconds = MedianSeconds([&] {
    pool.Run(threads * 8, [&](int, int) { g_sink = static_cast<int64_t>(run(kRounds)); });
  });
  return threads * 8 * static_cast<double>(kRounds) * units / seconds;
}

double ReadBandwidth(int threads, int64_t mib) {
  const size_t bytes = static_cast<size_t>(mib) << 20;
  std::byte* data = static_cast<std::byte*>(std::aligned_alloc(4096, bytes));
  std::memset(data, 1, bytes);
  ThreadPool pool(threads);
  const int chunks = 16 * threads;
  const size_t part = bytes / static_cast<size_t>(chunks) / 1024 * 1024;
  const double seconds = MedianSeconds([&] {
    pool.Run(chunks, [&](int chunk, int) {
      g_sink = Avx2ReadLoop(data + static_cast<size_t>(chunk) * part, part);
    });
  });
  std::free(data);
  return static_cast<double>(part) * chunks / seconds / 1e9;
}

void Limits(int threads_max, bool avx512) {
  std::printf("\nlimits                   ");
  for (int n = 1; n <= threads_max; n *= 2) std::printf("%6d thread%s", n, n > 1 ? "s" : " ");
  const auto row = [&](const char* name, const char* unit, auto rate) {
    std::printf("\n%-24s ", name);
    for (int n = 1; n <= threads_max; n *= 2) std::printf("%8.0f %-5s", rate(n), unit);
  };
  for (const int64_t mib : {1, 8, 32, 96, 512}) {
    const std::string name = "read " + std::to_string(mib) + " MiB";
    row(name.c_str(), "GB/s", [&](int n) { return ReadBandwidth(n, mib); });
  }
  row("f32 fma, AVX2", "GOP/s", [&](int n) { return Rate(n, 16e-9 * kDotChains, Avx2FmaLoop); });
  row("u8 x s8, AVX2", "GOP/s", [&](int n) { return Rate(n, 64e-9 * kDotChains, Avx2DotLoop); });
  row("u4 x s8, AVX2", "GOP/s",
      [&](int n) { return Rate(n, 512e-9 * kDotChains, Avx2NibbleDotLoop); });
  if (avx512) {
    row("f32 fma, AVX-512", "GOP/s",
        [&](int n) { return Rate(n, 32e-9 * kDotChains, Avx512FmaLoop); });
    row("vpdpbusd, AVX-512", "GOP/s",
        [&](int n) { return Rate(n, 128e-9 * kDotChains, Avx512DotLoop); });
  }
  std::printf("\n");
}

void Pool(int threads) {
  ThreadPool pool(threads);
  std::vector<std::atomic<int>> touched(static_cast<size_t>(threads));
  const auto run = [&] {
    pool.Run(threads, [&](int, int worker) { ++touched[static_cast<size_t>(worker)]; });
  };
  const double spinning = MedianSeconds(run, 0.3);
  std::vector<double> awoken;
  for (int i = 0; i < 200; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(500));
    const auto begin = std::chrono::steady_clock::now();
    std::atomic<int> here{0};
    pool.Run(threads, [&](int, int) {
      ++here;
      while (here < threads) std::this_thread::yield();
    });
    awoken.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(awoken.begin(), awoken.end());
  std::printf(
      "\npool of %d: launch and wait %.2f us with helpers spinning; all threads inside after "
      "sleep %.1f us (median), %.1f us (P99)\n",
      threads, spinning * 1e6, awoken[100] * 1e6, awoken[198] * 1e6);
}

struct Shape {
  const char* name;
  int64_t rows, cols;
};
constexpr Shape kShapes[] = {{"qkv", 960, 576},
                             {"o", 576, 576},
                             {"gate_up", 3072, 576},
                             {"down", 576, 1536},
                             {"head", 49152, 576}};

void MatMuls(CpuIsa isa, int threads, DType dtype, ActivationMode mode) {
  Bench bench(isa, threads, mode);
  for (const Shape& shape : kShapes) {
    const bool head = shape.rows > 10000;
    if (head && (dtype == DType::kQ4_1 || dtype == DType::kF32)) continue;
    // Copies taken in turn, so that weights come from where a whole model's would.
    const int64_t bytes = BytesOf(dtype, shape.rows * shape.cols);
    std::vector<WeightView> weights;
    for (int64_t i = 0; i < 1 + (int64_t{64} << 20) / bytes && i < 60; ++i) {
      weights.push_back(bench.RandomWeight(dtype, shape.rows, shape.cols));
    }
    for (const int64_t t : {1, 4, 8, 16, 32, 128, 512}) {
      if (head && t > 32) continue;
      const ActivationView in = bench.RandomActivation(dtype, t, shape.cols);
      float* out = bench.RandomFloats(t * shape.rows);
      size_t turn = 0;
      const double seconds = MedianSeconds([&] {
        bench.ops().MatMul(Matrix(out, t, shape.rows), in, weights[turn++ % weights.size()]);
      });
      const double ops = 2.0 * static_cast<double>(t * shape.rows * shape.cols);
      std::printf("%-13s %-5s x %-4s %-8s T %4ld  %9.1f us  %7.1f GOP/s  %6.1f GB/s\n",
                  std::string(NameOf(isa)).c_str(), std::string(InfoOf(dtype).name).c_str(),
                  in.format == ActivationFormat::kQ8 ? "q8" : "f32", shape.name,
                  static_cast<long>(t), seconds * 1e6, ops / seconds / 1e9,
                  static_cast<double>(bytes) / seconds / 1e9);
    }
  }
}

void Attentions(CpuIsa isa, int threads) {
  Bench bench(isa, threads);
  for (const AttentionShape shape : {AttentionShape{1, 1, 128, 9, 3, 64},
                                     {1, 1, 1024, 9, 3, 64},
                                     {1, 1, 2048, 9, 3, 64},
                                     {1, 1, 8192, 9, 3, 64},
                                     {16, 1, 512, 9, 3, 64},
                                     {1, 128, 128, 9, 3, 64},
                                     {1, 128, 1024, 9, 3, 64},
                                     {1, 128, 2048, 9, 3, 64},
                                     {1, 128, 8192, 9, 3, 64}}) {
    AttentionBench attention(bench, shape);
    const ActivationView out = bench.NewActivation(DType::kQ4_1, attention.tokens(), 576);
    const double seconds = MedianSeconds([&] { attention.Attend(out); });
    const double mean = static_cast<double>(shape.context) - static_cast<double>(shape.queries) / 2;
    const double tokens = static_cast<double>(attention.tokens());
    const double ops = 4.0 * tokens * mean * 9 * 64;
    const double bytes = static_cast<double>(shape.sequences * shape.context) * 2 * 3 * 64 * 2;
    std::printf(
        "%-13s attention  B %2ld  queries %3ld  context %5ld  %9.1f us  %7.1f GOP/s  "
        "%6.1f GB/s of K and V\n",
        std::string(NameOf(isa)).c_str(), static_cast<long>(shape.sequences),
        static_cast<long>(shape.queries), static_cast<long>(shape.context), seconds * 1e6,
        ops / seconds / 1e9, bytes / seconds / 1e9);
  }
}

void Samplings(CpuIsa isa, int threads) {
  Bench bench(isa, threads);
  constexpr int64_t kRows = 16, kVocabulary = 49152;
  float* logits = bench.RandomFloats(kRows * kVocabulary);
  for (int64_t i = 0; i < kRows * kVocabulary; ++i) logits[i] *= 3.0f;
  struct Rules {
    const char* name;
    float temperature, top_p, min_p;
    int32_t top_k;
  };
  for (const Rules rules : {Rules{"greedy", 0, 1, 0, 0}, Rules{"temperature", 1, 1, 0, 0},
                            Rules{"top-k 40", 1, 1, 0, 40}, Rules{"top-p 0.95", 0.8f, 0.95f, 0, 0},
                            Rules{"min-p 0.05", 1, 1, 0.05f, 0}}) {
    const std::vector<float> temperature(kRows, rules.temperature), top_p(kRows, rules.top_p),
        min_p(kRows, rules.min_p), zero(kRows, 0.0f), one(kRows, 1.0f);
    const std::vector<int32_t> top_k(kRows, rules.top_k);
    std::vector<uint64_t> seed;
    for (uint64_t i = 0; i < kRows; ++i) seed.push_back(i);
    const std::vector<uint32_t> none(kRows, 0);
    std::vector<int32_t> ids(kRows);
    SamplingBatch batch;
    batch.rows = kRows, batch.temperature = temperature.data(), batch.top_k = top_k.data();
    batch.top_p = top_p.data(), batch.min_p = min_p.data(), batch.presence = zero.data();
    batch.frequency = zero.data(), batch.repetition = one.data(), batch.seed = seed.data();
    batch.choice = none.data(), batch.position = none.data();
    batch.all_greedy = rules.temperature == 0;
    const double seconds = MedianSeconds([&] {
      bench.ops().Sample(Vector(ids.data(), kRows, DType::kI32), Matrix(logits, kRows, kVocabulary),
                         batch);
    });
    std::printf("%-13s sampling   %-12s %9.1f us a row (of 16)\n", std::string(NameOf(isa)).c_str(),
                rules.name, seconds * 1e6 / kRows);
  }
}

void Models(CpuIsa isa, int threads) {
  for (const AttentionShape shape : {AttentionShape{1, 128, 128, 9, 3, 64},
                                     {1, 512, 512, 9, 3, 64},
                                     {1, 2048, 2048, 9, 3, 64},
                                     {1, 1, 128, 9, 3, 64},
                                     {1, 1, 1024, 9, 3, 64},
                                     {4, 1, 256, 9, 3, 64},
                                     {16, 1, 256, 9, 3, 64},
                                     {32, 1, 256, 9, 3, 64}}) {
    Bench bench(isa, threads);
    ModelBench model(bench, shape, 30);
    const double seconds = MedianSeconds([&] { model.Step(); }, 1.0);
    std::printf("%-13s model step  B %2ld  queries %4ld  context %5ld  %8.2f ms  %7.0f tok/s\n",
                std::string(NameOf(isa)).c_str(), static_cast<long>(shape.sequences),
                static_cast<long>(shape.queries), static_cast<long>(shape.context), seconds * 1e3,
                static_cast<double>(model.tokens()) / seconds);
    double sum = 0;
    std::printf("    best of each operation, us:");
    for (const ModelBench::Best& best : model.best()) {
      std::printf(" %s %.1f", best.name, best.seconds * 1e6);
      sum += best.times * best.seconds;
    }
    std::printf("; together %.2f ms, %.0f tok/s\n", sum * 1e3,
                static_cast<double>(model.tokens()) / sum);
    std::fflush(stdout);
  }
}

struct Options {
  int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  std::vector<std::string_view> words;

  bool Has(std::string_view word) const {
    return std::find(words.begin(), words.end(), word) != words.end();
  }
  // Whether `word` is among those of `kind`, or none of the kind is.
  bool Wants(std::string_view word, const std::vector<std::string_view>& kind) const {
    return Has(word) || std::none_of(kind.begin(), kind.end(), [&](auto w) { return Has(w); });
  }
  bool Section(std::string_view name) const {
    return Wants(name, {"limits", "pool", "model", "attention", "sampling", "matmul"});
  }
};

void IsaSections(CpuIsa isa, const Options& options) {
  std::printf("\n");
  if (options.Section("model")) Models(isa, options.threads);
  if (options.Section("attention")) Attentions(isa, options.threads);
  if (options.Section("sampling")) Samplings(isa, options.threads);
  if (!options.Section("matmul")) return;
  struct Product {
    std::string_view name;
    DType dtype;
    ActivationMode mode;
  };
  for (const Product& product : {Product{"Q4_1", DType::kQ4_1, ActivationMode::kInt8},
                                 {"Q4_0", DType::kQ4_0, ActivationMode::kInt8},
                                 {"Q8_0", DType::kQ8_0, ActivationMode::kInt8},
                                 {"Q4_1_f32", DType::kQ4_1, ActivationMode::kF32},
                                 {"F16", DType::kF16, ActivationMode::kF32},
                                 {"F32", DType::kF32, ActivationMode::kF32}}) {
    if (!options.Wants(product.name, {"Q4_1", "Q4_0", "Q8_0", "Q4_1_f32", "F16", "F32"})) continue;
    MatMuls(isa, options.threads, product.dtype, product.mode);
  }
}

int Main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--best") {
      g_best = true;
    } else if (word == "--cpu-time") {
      g_cpu_time = true, options.threads = 1;
    } else if (word == "--threads" && i + 1 < argc) {
      options.threads = std::clamp(std::atoi(argv[++i]), 1, ThreadPool::kThreadsMax);
    } else {
      options.words.push_back(word);
    }
  }
  const std::vector<CpuIsa> isas = SupportedCpuIsas();
  if (isas.empty()) return std::puts("this processor has no AVX2"), 1;
  double load = 0;
  getloadavg(&load, 1);
  std::printf("%s, %d threads, %s, load average at the start %.2f\n", ProcessorName().c_str(),
              options.threads, g_best ? "best times" : "medians", load);
  if (options.Section("limits")) Limits(options.threads, isas[0] == CpuIsa::kAvx512Vnni);
  if (options.Section("pool")) Pool(options.threads);
  for (const CpuIsa isa : isas) {
    const std::string_view name = isa == CpuIsa::kAvx2 ? "avx2" : "avx512";
    if (options.Wants(name, {"avx2", "avx512"})) IsaSections(isa, options);
  }
  return 0;
}

}  // namespace
}  // namespace sluice::kernels::bench

int main(int argc, char** argv) { return sluice::kernels::bench::Main(argc, argv); }
