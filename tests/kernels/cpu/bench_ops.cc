#include "tests/kernels/cpu/bench_ops.h"

#include <algorithm>
#include <cmath>
#include <ctime>

#include "kernels/check.h"
#include "kernels/numeric.h"

namespace sluice::kernels::bench {

bool g_cpu_time = false;
bool g_best = false;

double Now() {
  timespec now;
  clock_gettime(g_cpu_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double MedianSeconds(const std::function<void()>& run, double budget_s) {
  run();
  std::vector<double> times;
  const double start = Now();
  while (times.size() < 5 || Now() - start < budget_s) {
    const double begin = Now();
    run();
    times.push_back(Now() - begin);
  }
  if (g_best) return *std::min_element(times.begin(), times.end());
  std::nth_element(times.begin(), times.begin() + static_cast<int64_t>(times.size() / 2),
                   times.end());
  return times[times.size() / 2];
}

// As in models, some blocks of 32 columns are large in most rows: about a fifth is refined, and
// four rows together have a refined one in a third.
constexpr float kSpreadOfColumns = 0.9f, kSpreadOfRows = 0.3f;

Bench::Bench(CpuIsa isa, int threads, ActivationMode mode)
    : backend_(CreateCpuBackend({mode, threads}, isa)) {}

std::byte* Bench::Allocate(int64_t bytes) {
  std::byte* data = backend_->Allocate(static_cast<size_t>(bytes));
  SLUICE_CHECK(data != nullptr) << "no memory for " << bytes << " bytes";
  memory_.emplace_back(data, Freer{backend_.get()});
  return data;
}

float* Bench::RandomFloats(int64_t n) {
  auto* data = reinterpret_cast<float*>(Allocate(n * int64_t{sizeof(float)}));
  for (int64_t i = 0; i < n; ++i) data[i] = std::normal_distribution<float>()(random_);
  return data;
}

WeightView Bench::RandomWeight(DType dtype, int64_t rows, int64_t cols) {
  std::vector<std::byte> raw(static_cast<size_t>(BytesOf(dtype, rows * cols)));
  for (std::byte& byte : raw) byte = static_cast<std::byte>(random_() & 0xFF);
  // Small finite numbers wherever the format has a float.
  const int64_t step = InfoOf(dtype).block_bytes;
  const uint16_t half = FloatToHalf(0.01f);
  for (size_t i = 0; i < raw.size(); i += static_cast<size_t>(step)) {
    if (dtype == DType::kF32) {
      raw[i + 3] = std::byte{0x3C};
    } else {
      raw[i] = static_cast<std::byte>(half & 0xFF);
      raw[i + 1] = static_cast<std::byte>(half >> 8);
    }
    if (dtype == DType::kQ4_1) raw[i + 2] = raw[i], raw[i + 3] = raw[i + 1];
  }
  const RawMatrix matrix{dtype, rows, cols, raw.data()};
  std::byte* packed = Allocate(static_cast<int64_t>(backend_->PackedBytes(dtype, rows, cols)));
  return backend_->PackWeight(packed, {&matrix, 1});
}

ActivationView Bench::NewActivation(DType weight, int64_t rows, int64_t cols) {
  ActivationView view;
  view.format = backend_->ActivationFormatFor(weight);
  view.rows = rows, view.cols = cols;
  view.row_bytes = backend_->ActivationRowBytes(view.format, cols);
  view.data = Allocate(rows * view.row_bytes);
  return view;
}

ActivationView Bench::RandomActivation(DType weight, int64_t rows, int64_t cols) {
  const ActivationView view = NewActivation(weight, rows, cols);
  float* const x = RandomFloats(rows * cols);
  float* const norm = RandomFloats(cols);
  const auto scale_blocks = [this](float* data, int64_t n, float spread) {
    for (int64_t b = 0; b < n; b += 32) {
      const float factor = std::exp(spread * std::normal_distribution<float>()(random_));
      for (int64_t i = b; i < std::min(n, b + 32); ++i) data[i] *= factor;
    }
  };
  scale_blocks(norm, cols, kSpreadOfColumns);
  for (int64_t r = 0; r < rows; ++r) scale_blocks(x + r * cols, cols, kSpreadOfRows);
  ops().RmsNorm(view, Matrix(x, rows, cols), Vector(norm, cols), 1e-5f);
  return view;
}

AttentionBench::AttentionBench(Bench& bench, const AttentionShape& shape)
    : shape_(shape), bench_(bench) {
  constexpr int32_t kBlockSize = 16;
  kv_.dtype = DType::kF16;
  kv_.block_size = kBlockSize;
  kv_.kv_heads = static_cast<int32_t>(shape.kv_heads);
  kv_.head_dim = static_cast<int32_t>(shape.head_dim);
  const int64_t blocks = (shape.context + kBlockSize - 1) / kBlockSize;
  kv_.blocks = shape.sequences * blocks;
  kv_.block_bytes = 2 * kv_.kv_heads * kv_.AreaBytes();
  const int64_t halves = kv_.blocks * kv_.block_bytes / 2;
  kv_.base = reinterpret_cast<std::byte*>(bench.RandomFloats(halves / 2 + 1));
  for (int64_t i = 0; i < halves; ++i) {
    reinterpret_cast<uint16_t*>(kv_.base)[i] = FloatToHalf(static_cast<float>(i % 13) * 0.1f);
  }
  const int64_t rows = tokens();
  q_ = bench.RandomFloats(rows * shape.heads * shape.head_dim);
  rope_ = bench.RandomFloats(shape.context * shape.head_dim);
  query_begin_.push_back(0);
  for (int64_t s = 0; s < shape.sequences; ++s) {
    query_begin_.push_back(static_cast<int32_t>((s + 1) * shape.queries));
    first_.push_back(static_cast<int32_t>(shape.context - shape.queries));
    for (int64_t b = 0; b < blocks; ++b) table_.push_back(static_cast<int32_t>(s * blocks + b));
    for (int64_t i = 0; i < shape.queries; ++i) {
      const int64_t position = shape.context - shape.queries + i;
      positions_.push_back(static_cast<int32_t>(position));
      slots_.push_back(static_cast<int32_t>(s * blocks * kBlockSize + position));
    }
  }
  layout_.sequences = static_cast<int32_t>(shape.sequences);
  layout_.tokens = static_cast<int32_t>(rows);
  layout_.query_begin = query_begin_.data(), layout_.first_position = first_.data();
  layout_.positions = positions_.data(), layout_.kv_slots = slots_.data();
  layout_.block_table = table_.data(), layout_.blocks_max = static_cast<int32_t>(blocks);
  layout_.query_max = static_cast<int32_t>(shape.queries);
  layout_.context_max = static_cast<int32_t>(shape.context);
}

void AttentionBench::Attend(ActivationView out) {
  bench_.ops().PagedAttention(out,
                              Heads<ConstTensorView>(q_, tokens(), shape_.heads, shape_.head_dim),
                              kv_, layout_, 0.125f);
}

void AttentionBench::Rope(float* qkv) {
  const int64_t q_width = shape_.heads * shape_.head_dim,
                kv_width = shape_.kv_heads * shape_.head_dim;
  const int64_t stride = q_width + 2 * kv_width;
  bench_.ops().RopeAndWriteKv(
      Heads(qkv, tokens(), shape_.heads, shape_.head_dim, stride), kv_,
      Heads<ConstTensorView>(qkv + q_width, tokens(), shape_.kv_heads, shape_.head_dim, stride),
      Heads<ConstTensorView>(qkv + q_width + kv_width, tokens(), shape_.kv_heads, shape_.head_dim,
                             stride),
      Heads<ConstTensorView>(rope_, shape_.context, shape_.head_dim / 2, 2), RopePairs::kAdjacent,
      layout_);
}

ModelBench::ModelBench(Bench& bench, const AttentionShape& shape, int layers)
    : bench_(bench), sequences_(shape.sequences), attention_(bench, shape) {
  constexpr DType kType = DType::kQ4_1;
  for (const auto& [name, times] :
       std::initializer_list<std::pair<const char*, int>>{{"norm", 2 * layers},
                                                          {"qkv", layers},
                                                          {"rope", layers},
                                                          {"attention", layers},
                                                          {"o", layers},
                                                          {"gate_up", layers},
                                                          {"gate", layers},
                                                          {"down", layers},
                                                          {"head", 1}}) {
    best_.push_back({name, times, 1e9});
  }
  for (int i = 0; i < layers; ++i) {
    layers_.push_back(
        {bench.RandomWeight(kType, 960, kWidth), bench.RandomWeight(kType, kWidth, kWidth),
         bench.RandomWeight(kType, 2 * kFfn, kWidth), bench.RandomWeight(kType, kWidth, kFfn)});
  }
  head_ = bench.RandomWeight(DType::kQ8_0, kVocabulary, kWidth);
  const int64_t rows = tokens();
  x_ = bench.RandomFloats(rows * kWidth);
  delta_ = bench.RandomFloats(rows * kWidth);
  qkv_ = bench.RandomFloats(rows * 960);
  gate_up_ = bench.RandomFloats(rows * 2 * kFfn);
  norm_ = bench.RandomFloats(kWidth);
  rows_ = bench.RandomFloats(sequences_ * kWidth);
  logits_ = bench.RandomFloats(sequences_ * kVocabulary);
  in_ = bench.NewActivation(kType, rows, kWidth);
  attended_ = bench.NewActivation(kType, rows, kWidth);
  gated_ = bench.NewActivation(kType, rows, kFfn);
  last_ = bench.NewActivation(DType::kQ8_0, sequences_, kWidth);
}

template <typename Run>
void ModelBench::Timed(size_t kind, const Run& run) {
  const double begin = Now();
  run();
  best_[kind].seconds = std::min(best_[kind].seconds, Now() - begin);
}

void ModelBench::Step() {
  Ops& ops = bench_.ops();
  const int64_t rows = tokens();
  const auto norm = Vector<ConstTensorView>(norm_, kWidth);
  const auto x = Matrix(x_, rows, kWidth), delta = Matrix(delta_, rows, kWidth);
  const auto gate_up = Matrix(gate_up_, rows, 2 * kFfn);
  for (const Layer& layer : layers_) {
    Timed(0, [&] { ops.AddRmsNorm(x, in_, delta, norm, 1e-5f); });
    Timed(1, [&] { ops.MatMul(Matrix(qkv_, rows, 960), in_, layer.qkv); });
    Timed(2, [&] { attention_.Rope(qkv_); });
    Timed(3, [&] { attention_.Attend(attended_); });
    Timed(4, [&] { ops.MatMul(delta, attended_, layer.o); });
    Timed(0, [&] { ops.AddRmsNorm(x, in_, delta, norm, 1e-5f); });
    Timed(5, [&] { ops.MatMul(gate_up, in_, layer.gate_up); });
    Timed(6, [&] { ops.GatedActivation(gated_, gate_up, GateKind::kSilu); });
    Timed(7, [&] { ops.MatMul(delta, gated_, layer.down); });
  }
  std::vector<int32_t> last;
  for (int64_t s = 0; s < sequences_; ++s) {
    last.push_back(static_cast<int32_t>((s + 1) * rows / sequences_ - 1));
  }
  const auto sampled = Matrix(rows_, sequences_, kWidth);
  ops.GatherRows(sampled, x, Vector<ConstTensorView>(last.data(), sequences_, DType::kI32));
  ops.RmsNorm(last_, sampled, norm, 1e-5f);
  Timed(8, [&] { ops.MatMul(Matrix(logits_, sequences_, kVocabulary), last_, head_); });
}

}  // namespace sluice::kernels::bench
