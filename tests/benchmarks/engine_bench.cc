// Measures the engine without a network: each figure beside the limit that this machine sets for
// it.
//   engine_bench MODEL.gguf [--threads N] [--activations int8|f32] [--isa NAME] [--rounds N]
// Workloads: one stream (128 tokens in, 128 out), prefill (2,000 in), and 4, 16, 32 streams (128
// in, 64 out).
#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "engine/load.h"
#include "tests/benchmarks/bench_roofs.h"

namespace sluice::bench {
namespace {

using engine::Clock;

double Seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

// Counts down as answers end, and keeps their times.
class Collector : public engine::OutputSink {
 public:
  explicit Collector(int answers) : left_(answers) {}
  void OnChunk(engine::OutputChunk chunk) override {
    if (chunk.finish == engine::FinishReason::kNone) return;
    std::lock_guard lock(mutex_);
    times_.push_back(chunk.times);
    tokens_ += chunk.generated_tokens;
    if (--left_ == 0) done_.notify_all();
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return left_ == 0; });
  }
  const std::vector<engine::SequenceTimes>& times() const { return times_; }
  int64_t tokens() const { return tokens_; }

 private:
  std::mutex mutex_;
  std::condition_variable done_;
  int left_;
  int64_t tokens_ = 0;
  std::vector<engine::SequenceTimes> times_;
};

struct Figures {
  double prefill_tok_s = 0;  // prompt tokens over the time to the first token
  double decode_tok_s = 0;   // all streams together, first token to last
};

Figures RunStreams(engine::Engine& engine, int streams, int tokens_in, int tokens_out,
                   std::mt19937_64& rng) {
  auto collector = std::make_shared<Collector>(streams);
  std::uniform_int_distribution<int32_t> token(100, engine.tokenizer().vocab_size() - 1);
  static int serial = 0;
  for (int s = 0; s < streams; ++s) {
    auto request = std::make_shared<engine::GenerateRequest>();
    request->id = "bench-" + std::to_string(++serial);
    for (int i = 0; i < tokens_in; ++i) request->prompt.push_back(token(rng));
    request->sampling.temperature = 0;
    request->stop.max_tokens = tokens_out;
    request->stop.ignore_eos = true;
    request->arrival = Clock::now();
    if (absl::Status status = engine.Submit(request, collector); !status.ok()) {
      std::fprintf(stderr, "submit: %s\n", std::string(status.message()).c_str());
      std::exit(1);
    }
  }
  collector->Wait();
  Clock::time_point first = Clock::time_point::max(), first_last{}, last{},
                    arrival = Clock::time_point::max();
  for (const engine::SequenceTimes& t : collector->times()) {
    arrival = std::min(arrival, t.arrival);
    first = std::min(first, t.first_token);
    first_last = std::max(first_last, t.first_token);
    last = std::max(last, t.last_token);
  }
  Figures f;
  f.prefill_tok_s = static_cast<double>(streams) * tokens_in / Seconds(first_last - arrival);
  if (tokens_out > 1)
    f.decode_tok_s = static_cast<double>(collector->tokens() - streams) / Seconds(last - first);
  return f;
}

double Median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<long>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

int Main(engine::ModelOptions options, int rounds) {
  auto model = engine::LoadableModel::Open(options);
  if (!model.ok()) {
    std::fprintf(stderr, "%s\n", engine::Message(model.status()).c_str());
    return 1;
  }
  auto engine =
      (*model)->Load([](const engine::LoadProgress&) {}, nullptr, [](const absl::Status&) {});
  if (!engine.ok()) {
    std::fprintf(stderr, "%s\n", engine::Message(engine.status()).c_str());
    return 1;
  }
  const auto weights = static_cast<double>((*model)->memory().weights_bytes);
  std::printf("%s\n%s\n%s\nmedians of %d rounds\n\n", ProcessorName().c_str(),
              (*model)->Describe().c_str(), (*model)->DescribeBackend().c_str(), rounds);
  const int threads =
      options.threads > 0 ? options.threads : static_cast<int>(std::thread::hardware_concurrency());
  std::mt19937_64 rng(7);
  RunStreams(**engine, 1, 64, 8, rng);

  std::printf("%-34s %12s %s\n", "workload", "tok/s", "limit in the same minute");
  std::vector<double> decode, prefill;
  for (int r = 0; r < rounds; ++r)
    decode.push_back(RunStreams(**engine, 1, 128, 128, rng).decode_tok_s);
  const double bandwidth = ReadBandwidth(static_cast<size_t>(weights), threads, 21);
  const double limit = bandwidth * 1e9 / weights;
  std::printf("%-34s %12.1f %.0f (weights %.1f MB at %.1f GB/s): %.0f %%\n",
              "decode, 1 stream, 128 in", Median(decode), limit, weights / 1e6, bandwidth,
              100 * Median(decode) / limit);
  for (int r = 0; r < rounds; ++r)
    prefill.push_back(RunStreams(**engine, 1, 2000, 1, rng).prefill_tok_s);
  std::printf("%-34s %12.1f %s\n", "prefill, 2,000 in", Median(prefill),
              "compute: op_bench prints the rates of the products");
  for (int streams : {4, 16, 32}) {
    std::vector<double> v;
    for (int r = 0; r < rounds; ++r)
      v.push_back(RunStreams(**engine, streams, 128, 64, rng).decode_tok_s);
    std::printf("decode, %2d streams, 128 in %7s %12.1f %.1f times one stream\n", streams, "",
                Median(v), Median(v) / Median(decode));
  }
  return 0;
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  sluice::engine::ModelOptions options;
  int rounds = 3;
  for (int i = 1; i < argc; ++i) {
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (!std::strcmp(argv[i], "--threads")) {
      options.threads = std::atoi(value), ++i;
    } else if (!std::strcmp(argv[i], "--activations")) {
      options.activations = std::strcmp(value, "f32") ? sluice::engine::ActivationChoice::kInt8
                                                      : sluice::engine::ActivationChoice::kF32;
      ++i;
    } else if (!std::strcmp(argv[i], "--isa")) {
      options.isa = value, ++i;
    } else if (!std::strcmp(argv[i], "--rounds")) {
      rounds = std::max(1, std::atoi(value)), ++i;
    } else {
      options.path = argv[i];
    }
  }
  if (options.path.empty()) {
    std::fprintf(stderr,
                 "usage: engine_bench MODEL.gguf [--threads N] [--activations int8|f32] [--isa "
                 "NAME] [--rounds N]\n");
    return 1;
  }
  return sluice::bench::Main(options, rounds);
}
