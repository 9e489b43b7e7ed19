#include "kernels/ops.h"

#include <ostream>
#include <string_view>

#include "kernels/check.h"

// The contract checks: all that the host can see. What lies in device memory (ids, slots,
// positions) is the caller's promise.
namespace sluice::kernels {
namespace {

struct Described {
  const ConstTensorView& view;
};
std::ostream& operator<<(std::ostream& out, const Described& d) {
  const ConstTensorView& v = d.view;
  out << InfoOf(v.dtype).name << "[";
  for (int i = 0; i < v.rank; ++i) out << (i > 0 ? ", " : "") << v.dim(i);
  return out << "] stride " << v.stride << (v.data == nullptr ? " (null)" : "");
}

struct Wanted {
  std::string_view name;
  DType dtype;
  int rank;
  int64_t rows, inner, innermost;
};

void CheckView(const ConstTensorView& v, const Wanted& wanted) {
  SLUICE_CHECK_EQ(v.rank, wanted.rank) << wanted.name << " is " << Described{v};
  SLUICE_CHECK(v.dtype == wanted.dtype)
      << wanted.name << " is " << Described{v} << ", not " << InfoOf(wanted.dtype).name;
  SLUICE_CHECK(v.dim(0) == wanted.rows && v.dim(1) == wanted.inner && v.dim(2) == wanted.innermost)
      << wanted.name << " is " << Described{v} << ", not [" << wanted.rows << ", " << wanted.inner
      << ", " << wanted.innermost << "]";
  SLUICE_CHECK(v.rows() >= 0 && v.cols() > 0) << wanted.name << " is " << Described{v};
  SLUICE_CHECK_GE(v.stride, v.rank == 1 ? 1 : v.cols()) << wanted.name << " is " << Described{v};
  SLUICE_CHECK(v.data != nullptr || v.rows() == 0) << wanted.name << " is " << Described{v};
}

void CheckMatrix(std::string_view name, const ConstTensorView& v, int64_t rows, int64_t cols) {
  CheckView(v, {name, DType::kF32, 2, rows, cols, 1});
}
void CheckHeads(std::string_view name, const ConstTensorView& v, int64_t rows, int64_t heads,
                int64_t head_dim) {
  CheckView(v, {name, DType::kF32, 3, rows, heads, head_dim});
}
// A vector is dense: its stride is 1.
void CheckVector(std::string_view name, const ConstTensorView& v, int64_t n, DType dtype) {
  CheckView(v, {name, dtype, 1, n, 1, 1});
  SLUICE_CHECK_EQ(v.stride, 1) << name << " is " << Described{v};
}

void CheckActivation(std::string_view name, const ActivationView& v, int64_t rows, int64_t cols) {
  SLUICE_CHECK_EQ(v.rows, rows) << name;
  SLUICE_CHECK_EQ(v.cols, cols) << name;
  SLUICE_CHECK_GT(v.row_bytes, 0) << name;
  SLUICE_CHECK(v.data != nullptr || rows == 0) << name << " is null";
}

void CheckWeight(std::string_view name, const WeightView& w) {
  SLUICE_CHECK(w.data != nullptr) << name << " is null";
  SLUICE_CHECK(w.rows > 0 && w.cols > 0) << name << " is [" << w.rows << ", " << w.cols << "]";
  SLUICE_CHECK_EQ(w.cols % InfoOf(w.dtype).block_elements, 0) << name;
  SLUICE_CHECK(w.dtype != DType::kI32) << name;
}

void CheckKv(const KvLayerView& kv) {
  SLUICE_CHECK(kv.base != nullptr) << "kv is null";
  SLUICE_CHECK(kv.dtype == DType::kF32 || kv.dtype == DType::kF16)
      << "kv is " << InfoOf(kv.dtype).name;
  SLUICE_CHECK(kv.blocks > 0 && kv.block_size > 0 && kv.kv_heads > 0 && kv.head_dim > 0)
      << "kv has " << kv.blocks << " blocks of " << kv.block_size << " tokens, " << kv.kv_heads
      << " heads of " << kv.head_dim;
  SLUICE_CHECK_GE(kv.layer_offset, 0);
  SLUICE_CHECK_LE(kv.layer_offset + 2 * kv.kv_heads * kv.AreaBytes(), kv.block_bytes);
}

void CheckLayout(const AttentionLayout& layout, const KvLayerView& kv) {
  SLUICE_CHECK_GE(layout.tokens, 0);
  SLUICE_CHECK_GE(layout.sequences, 0);
  if (layout.tokens == 0) return;
  SLUICE_CHECK_GT(layout.sequences, 0);
  SLUICE_CHECK(layout.query_begin != nullptr && layout.first_position != nullptr &&
               layout.positions != nullptr && layout.kv_slots != nullptr &&
               layout.block_table != nullptr)
      << "an array of the attention layout is null";
  SLUICE_CHECK_GT(layout.query_max, 0);
  SLUICE_CHECK_LE(layout.query_max, layout.tokens);
  SLUICE_CHECK_GT(layout.context_max, 0);
  SLUICE_CHECK_LE(layout.context_max, int64_t{layout.blocks_max} * kv.block_size);
}

void CheckSamplingBatch(const SamplingBatch& batch, int64_t rows) {
  SLUICE_CHECK_EQ(batch.rows, rows);
  if (rows == 0) return;
  SLUICE_CHECK(batch.temperature != nullptr && batch.top_k != nullptr && batch.top_p != nullptr &&
               batch.min_p != nullptr && batch.presence != nullptr && batch.frequency != nullptr &&
               batch.repetition != nullptr && batch.seed != nullptr && batch.choice != nullptr &&
               batch.position != nullptr)
      << "an array of the sampling batch is null";
  if (!batch.any_rules) return;
  SLUICE_CHECK(batch.history_begin != nullptr && batch.bias_begin != nullptr)
      << "an array of the sampling batch is null";
}

// First and last byte of a view.
bool Overlap(const ConstTensorView& a, const ConstTensorView& b) {
  const auto begin = [](const ConstTensorView& v) { return static_cast<const std::byte*>(v.data); };
  const auto end = [&](const ConstTensorView& v) {
    return begin(v) + BytesOf(v.dtype, (v.rows() - 1) * v.stride + v.cols());
  };
  if (a.rows() == 0 || b.rows() == 0) return false;
  return begin(a) < end(b) && begin(b) < end(a);
}

}  // namespace

void Ops::Embed(TensorView out, const WeightView& table, ConstTensorView ids) {
  CheckWeight("table", table);
  CheckVector("ids", ids, ids.rows(), DType::kI32);
  CheckMatrix("out", out, ids.rows(), table.cols);
  DoEmbed(out, table, ids);
}

void Ops::RmsNorm(ActivationView out, ConstTensorView x, ConstTensorView weight, float eps) {
  CheckMatrix("x", x, x.rows(), x.cols());
  CheckVector("weight", weight, x.cols(), DType::kF32);
  CheckActivation("out", out, x.rows(), x.cols());
  SLUICE_CHECK_GE(eps, 0.0f);
  DoRmsNorm(out, x, weight, eps);
}

void Ops::AddRmsNorm(TensorView x, ActivationView out, ConstTensorView delta,
                     ConstTensorView weight, float eps) {
  CheckMatrix("x", x, x.rows(), x.cols());
  CheckMatrix("delta", delta, x.rows(), x.cols());
  CheckVector("weight", weight, x.cols(), DType::kF32);
  CheckActivation("out", out, x.rows(), x.cols());
  SLUICE_CHECK_GE(eps, 0.0f);
  SLUICE_CHECK(!Overlap(x, delta)) << "x and delta overlap";
  DoAddRmsNorm(x, out, delta, weight, eps);
}

void Ops::MatMul(TensorView out, const ActivationView& in, const WeightView& weight,
                 ConstTensorView bias) {
  CheckWeight("weight", weight);
  CheckActivation("in", in, in.rows, weight.cols);
  CheckMatrix("out", out, in.rows, weight.rows);
  if (bias.data != nullptr) CheckVector("bias", bias, weight.rows, DType::kF32);
  DoMatMul(out, in, weight, bias);
}

void Ops::GatedActivation(ActivationView out, ConstTensorView gate_up, GateKind kind) {
  SLUICE_CHECK_EQ(gate_up.cols() % 2, 0) << "gate_up is " << Described{gate_up};
  CheckMatrix("gate_up", gate_up, gate_up.rows(), gate_up.cols());
  CheckActivation("out", out, gate_up.rows(), gate_up.cols() / 2);
  DoGatedActivation(out, gate_up, kind);
}

void Ops::RopeAndWriteKv(TensorView q, const KvLayerView& kv, ConstTensorView k, ConstTensorView v,
                         ConstTensorView rope, RopePairs pairs, const AttentionLayout& layout) {
  CheckKv(kv);
  CheckLayout(layout, kv);
  CheckHeads("q", q, layout.tokens, q.dim(1), kv.head_dim);
  CheckHeads("k", k, layout.tokens, kv.kv_heads, kv.head_dim);
  CheckHeads("v", v, layout.tokens, kv.kv_heads, kv.head_dim);
  CheckHeads("rope", rope, rope.rows(), rope.dim(1), 2);
  SLUICE_CHECK_LE(2 * rope.dim(1), kv.head_dim) << "rope is " << Described{rope};
  SLUICE_CHECK_LE(layout.context_max, rope.rows()) << "rope is " << Described{rope};
  SLUICE_CHECK_EQ(q.dim(1) % kv.kv_heads, 0) << "q is " << Described{q};
  DoRopeAndWriteKv(q, kv, k, v, rope, pairs, layout);
}

void Ops::PagedAttention(ActivationView out, ConstTensorView q, const KvLayerView& kv,
                         const AttentionLayout& layout, float scale) {
  CheckKv(kv);
  CheckLayout(layout, kv);
  CheckHeads("q", q, layout.tokens, q.dim(1), kv.head_dim);
  SLUICE_CHECK_EQ(q.dim(1) % kv.kv_heads, 0) << "q is " << Described{q};
  CheckActivation("out", out, layout.tokens, q.cols());
  DoPagedAttention(out, q, kv, layout, scale);
}

void Ops::CopyBlocks(const KvLayerView& kv, std::span<const BlockCopy> copies) {
  for (const BlockCopy& copy : copies) {
    SLUICE_CHECK(copy.from >= 0 && copy.from < kv.blocks) << copy.from << " of " << kv.blocks;
    SLUICE_CHECK(copy.to >= 0 && copy.to < kv.blocks) << copy.to << " of " << kv.blocks;
    SLUICE_CHECK(copy.from != copy.to) << "block " << copy.from << " onto itself";
  }
  if (!copies.empty()) DoCopyBlocks(kv, copies);
}

void Ops::GatherRows(TensorView out, ConstTensorView x, ConstTensorView rows) {
  CheckVector("rows", rows, rows.rows(), DType::kI32);
  CheckMatrix("x", x, x.rows(), x.cols());
  CheckMatrix("out", out, rows.rows(), x.cols());
  SLUICE_CHECK(!Overlap(out, x)) << "out and x overlap";
  DoGatherRows(out, x, rows);
}

void Ops::ApplyLogitRules(TensorView logits, const SamplingBatch& batch) {
  CheckMatrix("logits", logits, batch.rows, logits.cols());
  CheckSamplingBatch(batch, logits.rows());
  if (!batch.any_rules) return;
  DoApplyLogitRules(logits, batch);
}

void Ops::Sample(TensorView ids, TensorView logits, const SamplingBatch& batch) {
  CheckMatrix("logits", logits, batch.rows, logits.cols());
  CheckVector("ids", ids, batch.rows, DType::kI32);
  CheckSamplingBatch(batch, logits.rows());
  DoSample(ids, logits, batch);
}

}  // namespace sluice::kernels
