#pragma once

#include "kernels/ops.h"

namespace sluice::kernels {

// The specification of every operation: one thread, one row after another, sums in double, code to
// be read. Packed weights are the file's bytes; a KV area is a plain [block_size, head_dim].
class ReferenceOps final : public Ops {
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
};

// Row `row` of a view.
inline float* Row(const TensorView& v, int64_t row) {
  return static_cast<float*>(v.data) + row * v.stride;
}
inline const float* Row(const ConstTensorView& v, int64_t row) {
  return static_cast<const float*>(v.data) + row * v.stride;
}
inline int32_t IndexAt(const ConstTensorView& v, int64_t i) {
  return static_cast<const int32_t*>(v.data)[i];
}

}  // namespace sluice::kernels
