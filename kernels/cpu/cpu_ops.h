#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cpu/packed_weight.h"
#include "kernels/cpu/simd/kernel_table.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/ops.h"

namespace sluice::kernels {

// Memory that grows when a larger shape comes and is then kept. 64-byte aligned.
class ScratchBuffer {
 public:
  float* Floats(int64_t n);

 private:
  struct Free {
    void operator()(float* p) const;
  };
  std::unique_ptr<float, Free> data_;
  int64_t capacity_ = 0;
};

int64_t CpuActivationRowBytes(ActivationFormat format, int64_t cols);

// The ops: splits each into chunks for the pool and calls the instruction set's kernels. An op too
// small to be worth waking a helper runs on the calling thread alone. How work is split never
// changes a result.
class CpuOps final : public Ops {
 public:
  CpuOps(const KernelTable& kernels, ThreadPool& pool);

 protected:
  void DoEmbed(TensorView out, const WeightView& table, ConstTensorView ids) override;
  void DoRmsNorm(ActivationView out, ConstTensorView x, ConstTensorView weight, float eps) override;
  void DoAddRmsNorm(TensorView x, ActivationView out, ConstTensorView delta, ConstTensorView weight,
                    float eps) override;
  void DoMatMul(TensorView out, const ActivationView& in, const WeightView& weight,
                ConstTensorView bias) override;
  void DoGatedActivation(ActivationView out, ConstTensorView gate_up, GateKind kind) override;
  void DoRopeAndWriteKv(TensorView q, const KvLayerView& kv, ConstTensorView k, ConstTensorView v,
                        ConstTensorView rope, RopePairs pairs,
                        const AttentionLayout& layout) override;
  void DoPagedAttention(ActivationView out, ConstTensorView q, const KvLayerView& kv,
                        const AttentionLayout& layout, float scale) override;
  void DoCopyBlocks(const KvLayerView& kv, std::span<const BlockCopy> copies) override;
  void DoGatherRows(TensorView out, ConstTensorView x, ConstTensorView rows) override;
  void DoApplyLogitRules(TensorView logits, const SamplingBatch& batch) override;
  void DoSample(TensorView ids, TensorView logits, const SamplingBatch& batch) override;

 private:
  friend class AttentionRun;

  // Calls body(begin, end, worker) on ranges that cover [0, count). `cost` is the work of one item
  // in, roughly, nanoseconds: decides how many items a range has, and whether to use helpers.
  template <typename Body>
  void Parallel(int64_t count, double cost, Body&& body) {
    constexpr double kChunkCost = 4000.0, kAloneCost = 6000.0;
    if (pool_.threads() == 1 || static_cast<double>(count) * cost < kAloneCost) {
      if (count > 0) body(int64_t{0}, count, 0);
      return;
    }
    int64_t size = static_cast<int64_t>(kChunkCost / cost) + 1;
    if ((count + size - 1) / size > ThreadPool::kChunksMax) {
      size = (count + ThreadPool::kChunksMax - 1) / ThreadPool::kChunksMax;
    }
    pool_.Run(static_cast<int>((count + size - 1) / size), [&](int chunk, int worker) {
      const int64_t begin = chunk * size;
      body(begin, begin + size < count ? begin + size : count, worker);
    });
  }

  // Where to put a row's float values before StoreRow takes them into `out`.
  float* RowBuffer(const ActivationView& out, int64_t row, int worker);
  void StoreRow(const ActivationView& out, int64_t row, const float* values);
  void StoreRowUnrefined(const ActivationView& out, int64_t row, const float* values);
  ScratchBuffer& ScratchOf(int worker) { return scratch_[static_cast<size_t>(worker)]; }

  const KernelTable& kernels_;
  ThreadPool& pool_;
  std::vector<ScratchBuffer> scratch_;  // one a worker
  ScratchBuffer shared_;                // results between two stages of an op
  // Which columns of which work an int8 product left in the worker's scratch.
  struct alignas(64) Gathered {
    uint32_t work = 0;
    int64_t column = -1;
  };
  std::vector<Gathered> gathered_;  // one a worker
  struct QueryTile {
    int32_t sequence, first_row, rows;  // rows of [queries of the sequence, heads of a group]
  };
  std::vector<QueryTile> query_tiles_;
  struct Candidate {
    float logit;
    int32_t id;
    double weight;
  };
  std::vector<std::vector<Candidate>> candidates_;  // one a worker
  std::vector<std::vector<int32_t>> candidate_ids_;
  friend class RowSampler;
};

}  // namespace sluice::kernels
