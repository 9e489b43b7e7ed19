#pragma once

#include <span>

#include "kernels/attention_layout.h"
#include "kernels/sampling_batch.h"
#include "kernels/tensor.h"

namespace sluice::kernels {

// Which elements of a head rotary embedding turns together (Su et al. 2021), R being the number of
// elements rotated.
enum class RopePairs { kAdjacent /* (0,1), (2,3).. */, kHalves /* (0, R/2), (1, R/2+1).. */ };
// kSilu: x / (1 + exp(-x)). kGelu: the tanh form, x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))
// (Hendrycks, Gimpel 2016).
enum class GateKind { kSilu, kGelu };

// The arithmetic, by shape contract. T tokens in the step, S sampled rows, E hidden width, H query
// heads, G kv heads, D head size, F ffn width, V vocabulary. Outputs first, inputs next, scalars
// last.
//
// The public functions check the contract (ops.cc) and call the backend's implementation. Every
// result row is a function of its own inputs alone: the same bits whatever T, the other rows, or
// the chunk in which a prompt is computed. Calls are made from one thread and run in order; results
// are ready after Backend::Synchronize. Views are not kept after a call returns.
class Ops {
 public:
  virtual ~Ops() = default;

  // out [T, E] f32: rows of `table` [V, E]. ids [T] i32, each in [0, V).
  void Embed(TensorView out, const WeightView& table, ConstTensorView ids);
  // out [T, E]: x / sqrt(mean(x^2) + eps) * weight. x [T, E] f32, weight [E] f32.
  void RmsNorm(ActivationView out, ConstTensorView x, ConstTensorView weight, float eps);
  // x [T, E] += delta [T, E]; out [T, E] = RmsNorm(x). x and delta may not overlap.
  void AddRmsNorm(TensorView x, ActivationView out, ConstTensorView delta, ConstTensorView weight,
                  float eps);
  // out [T, N] f32 = in [T, K] * weight [N, K]^T + bias. bias [N] f32 or an empty view. The format
  // of `in` is the one that Backend::ActivationFormatFor(weight.dtype) names.
  void MatMul(TensorView out, const ActivationView& in, const WeightView& weight,
              ConstTensorView bias = {});
  // out [T, F] = act(gate_up[:, 0:F]) * gate_up[:, F:2F]. gate_up [T, 2F] f32.
  void GatedActivation(ActivationView out, ConstTensorView gate_up, GateKind kind);
  // Rotates q [T, H, D] (in place) and k [T, G, D], and writes k and v [T, G, D] to their kv_slots.
  // rope [C, R/2, 2] f32: cosine and sine by position and pair; the first R <= D elements are
  // rotated.
  void RopeAndWriteKv(TensorView q, const KvLayerView& kv, ConstTensorView k, ConstTensorView v,
                      ConstTensorView rope, RopePairs pairs, const AttentionLayout& layout);
  // out [T, H*D]: causal softmax(q k^T * scale) v over the paged context, row at position p sees
  // 0..p. Head h reads kv head h / (H / G).
  void PagedAttention(ActivationView out, ConstTensorView q, const KvLayerView& kv,
                      const AttentionLayout& layout, float scale);
  // Block `to` of the KV memory becomes, over all layers, what block `from` is: one copy after the
  // other, in their order. `kv` may be any of the layers.
  void CopyBlocks(const KvLayerView& kv, std::span<const BlockCopy> copies);
  // out [S, E] = x[rows[s], :]. f32; rows [S] i32.
  void GatherRows(TensorView out, ConstTensorView x, ConstTensorView rows);
  // logits [S, V] f32 in place, each step in float: for every token of the history
  // l = l > 0 ? l / repetition : l * repetition; l -= frequency * times generated; if generated,
  // l -= presence. Then the bias is added.
  void ApplyLogitRules(TensorView logits, const SamplingBatch& batch);
  // ids [S] i32: one token a row by temperature, top-k, top-p and min-p (in this order, each on
  // what the one before kept), or greedy. -1 for a row that holds a NaN or +infinity, or nothing
  // but -infinity. logits [S, V] f32 may be overwritten.
  //   Candidates: the tokens whose logit is above -infinity, by logit descending, then id
  //   ascending, with weight w = exp((logit - the largest) / temperature). top-k keeps the first k;
  //   top-p the shortest prefix that holds at least top_p of the kept weight, one token at least;
  //   min-p those with w >= min_p (the first has w = 1). The answer is the first candidate whose
  //   running sum of weights exceeds u * (sum of the kept), u = UniformDraw(seed, choice, position,
  //   0).
  void Sample(TensorView ids, TensorView logits, const SamplingBatch& batch);

 protected:
  virtual void DoEmbed(TensorView out, const WeightView& table, ConstTensorView ids) = 0;
  virtual void DoRmsNorm(ActivationView out, ConstTensorView x, ConstTensorView weight,
                         float eps) = 0;
  virtual void DoAddRmsNorm(TensorView x, ActivationView out, ConstTensorView delta,
                            ConstTensorView weight, float eps) = 0;
  virtual void DoMatMul(TensorView out, const ActivationView& in, const WeightView& weight,
                        ConstTensorView bias) = 0;
  virtual void DoGatedActivation(ActivationView out, ConstTensorView gate_up, GateKind kind) = 0;
  virtual void DoRopeAndWriteKv(TensorView q, const KvLayerView& kv, ConstTensorView k,
                                ConstTensorView v, ConstTensorView rope, RopePairs pairs,
                                const AttentionLayout& layout) = 0;
  virtual void DoPagedAttention(ActivationView out, ConstTensorView q, const KvLayerView& kv,
                                const AttentionLayout& layout, float scale) = 0;
  virtual void DoCopyBlocks(const KvLayerView& kv, std::span<const BlockCopy> copies) = 0;
  virtual void DoGatherRows(TensorView out, ConstTensorView x, ConstTensorView rows) = 0;
  virtual void DoApplyLogitRules(TensorView logits, const SamplingBatch& batch) = 0;
  virtual void DoSample(TensorView ids, TensorView logits, const SamplingBatch& batch) = 0;
};

}  // namespace sluice::kernels
