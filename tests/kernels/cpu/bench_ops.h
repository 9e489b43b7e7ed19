#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "kernels/cpu/cpu_backend.h"

namespace sluice::kernels::bench {

// Counts the calling thread's processor time instead of time passed: for kernels on one thread of a
// machine that has other work.
extern bool g_cpu_time;
// Takes the best time instead of the median: what the code can do, not what the machine gave it.
extern bool g_best;

// Median seconds of `run`, called for about `budget_s` and five times at least.
double MedianSeconds(const std::function<void()>& run, double budget_s = 0.15);

// A backend with random operands.
class Bench {
 public:
  Bench(CpuIsa isa, int threads, ActivationMode mode = ActivationMode::kInt8);

  Backend& backend() { return *backend_; }
  Ops& ops() { return backend_->ops(); }
  float* RandomFloats(int64_t n);
  WeightView RandomWeight(DType dtype, int64_t rows, int64_t cols);
  ActivationView NewActivation(DType weight, int64_t rows, int64_t cols);
  // The same, holding a norm of random values.
  ActivationView RandomActivation(DType weight, int64_t rows, int64_t cols);

 private:
  struct Freer {
    Backend* backend;
    void operator()(std::byte* p) const { backend->Free(p); }
  };
  std::byte* Allocate(int64_t bytes);

  std::unique_ptr<Backend> backend_;
  std::vector<std::unique_ptr<std::byte, Freer>> memory_;
  std::mt19937 random_{1};
};

// Sequences of one length each, in paged KV memory of random values.
struct AttentionShape {
  int64_t sequences, queries, context, heads, kv_heads, head_dim;
};
class AttentionBench {
 public:
  AttentionBench(Bench& bench, const AttentionShape& shape);
  void Attend(ActivationView out);
  void Rope(float* qkv);  // [T, (H + 2G) D]
  int64_t tokens() const { return shape_.sequences * shape_.queries; }

 private:
  AttentionShape shape_;
  Bench& bench_;
  KvLayerView kv_;
  float* q_;
  float* rope_;
  std::vector<int32_t> query_begin_, first_, positions_, slots_, table_;
  AttentionLayout layout_;
};

// The default model's steps with random weights: tokens of equally long sequences.
class ModelBench {
 public:
  ModelBench(Bench& bench, const AttentionShape& shape, int layers);
  void Step();
  // The best time of each kind of operation seen so far, by its name and how often a step has it.
  struct Best {
    const char* name;
    int times;
    double seconds;
  };
  const std::vector<Best>& best() const { return best_; }
  int64_t tokens() const { return attention_.tokens(); }
  int64_t sampled() const { return sequences_; }

 private:
  static constexpr int64_t kWidth = 576, kFfn = 1536, kVocabulary = 49152;
  struct Layer {
    WeightView qkv, o, gate_up, down;
  };
  template <typename Run>
  void Timed(size_t kind, const Run& run);

  Bench& bench_;
  int64_t sequences_;
  AttentionBench attention_;
  std::vector<Best> best_;
  std::vector<Layer> layers_;
  WeightView head_;
  float *x_, *qkv_, *delta_, *gate_up_, *norm_, *rows_, *logits_;
  ActivationView in_, attended_, gated_, last_;
};

}  // namespace sluice::kernels::bench
