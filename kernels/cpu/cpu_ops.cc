#include "kernels/cpu/cpu_ops.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "kernels/check.h"

namespace sluice::kernels {
namespace {

// Rough costs in nanoseconds, to choose chunks by.
constexpr double kNormCost = 0.5;    // an element
constexpr double kGateCost = 0.8;    // an element
constexpr double kCopyCost = 0.1;    // an element
constexpr double kUnpackCost = 1.0;  // an element

template <typename T = float>
T* RowOf(const TensorView& view, int64_t row) {
  return static_cast<T*>(view.data) + row * view.stride;
}
template <typename T = float>
const T* RowOf(const ConstTensorView& view, int64_t row) {
  return static_cast<const T*>(view.data) + row * view.stride;
}

}  // namespace

void ScratchBuffer::Free::operator()(float* p) const { std::free(p); }

float* ScratchBuffer::Floats(int64_t n) {
  if (n > capacity_) {
    const int64_t bytes = (n * int64_t{sizeof(float)} + 63) / 64 * 64;
    data_.reset(static_cast<float*>(std::aligned_alloc(64, static_cast<size_t>(bytes))));
    SLUICE_CHECK(data_ != nullptr) << "no memory for " << bytes << " bytes of scratch";
    capacity_ = n;
  }
  return data_.get();
}

int64_t CpuActivationRowBytes(ActivationFormat format, int64_t cols) {
  if (format == ActivationFormat::kF32) return cols * int64_t{sizeof(float)};
  return (cols + 31) / 32 * int64_t{sizeof(Q8Block)};
}

CpuOps::CpuOps(const KernelTable& kernels, ThreadPool& pool)
    : kernels_(kernels),
      pool_(pool),
      scratch_(static_cast<size_t>(pool.threads())),
      gathered_(static_cast<size_t>(pool.threads())),
      candidates_(static_cast<size_t>(pool.threads())),
      candidate_ids_(static_cast<size_t>(pool.threads())) {}

float* CpuOps::RowBuffer(const ActivationView& out, int64_t row, int worker) {
  if (out.format == ActivationFormat::kF32) {
    return reinterpret_cast<float*>(out.data + row * out.row_bytes);
  }
  return ScratchOf(worker).Floats(out.cols);
}

void CpuOps::StoreRow(const ActivationView& out, int64_t row, const float* values) {
  if (out.format == ActivationFormat::kF32) return;  // RowBuffer is the row
  StoreRowUnrefined(out, row, values);
  kernels_.refine(values, out.cols, reinterpret_cast<Q8Block*>(out.data + row * out.row_bytes));
}

void CpuOps::StoreRowUnrefined(const ActivationView& out, int64_t row, const float* values) {
  kernels_.quantize(values, out.cols, reinterpret_cast<Q8Block*>(out.data + row * out.row_bytes));
}

void CpuOps::DoEmbed(TensorView out, const WeightView& table, ConstTensorView ids) {
  const PackedLayout packed(kernels_, table.dtype, table.rows, table.cols);
  const double cost = kUnpackCost * static_cast<double>(table.cols);
  Parallel(ids.rows(), cost, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      const int32_t id = *RowOf<int32_t>(ids, t);
      SLUICE_CHECK(id >= 0 && id < table.rows) << "id " << id << " of " << table.rows;
      packed.UnpackRow(table.data, id, RowOf(out, t));
    }
  });
}

void CpuOps::DoRmsNorm(ActivationView out, ConstTensorView x, ConstTensorView weight, float eps) {
  const double cost = kNormCost * static_cast<double>(x.cols());
  Parallel(x.rows(), cost, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t t = begin; t < end; ++t) {
      float* row = RowBuffer(out, t, worker);
      kernels_.rms_norm(row, RowOf(x, t), RowOf(weight, 0), x.cols(), eps);
      StoreRow(out, t, row);
    }
  });
}

void CpuOps::DoAddRmsNorm(TensorView x, ActivationView out, ConstTensorView delta,
                          ConstTensorView weight, float eps) {
  const double cost = kNormCost * static_cast<double>(x.cols());
  Parallel(x.rows(), cost, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t t = begin; t < end; ++t) {
      float* row = RowBuffer(out, t, worker);
      const NormTask task{row, RowOf(x, t), RowOf(delta, t), RowOf(weight, 0), x.cols(), eps};
      kernels_.add_rms_norm(task);
      StoreRow(out, t, row);
    }
  });
}

void CpuOps::DoGatedActivation(ActivationView out, ConstTensorView gate_up, GateKind kind) {
  const auto gate = kind == GateKind::kSilu ? kernels_.gate_silu : kernels_.gate_gelu;
  const double cost = kGateCost * static_cast<double>(out.cols);
  Parallel(gate_up.rows(), cost, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t t = begin; t < end; ++t) {
      float* row = RowBuffer(out, t, worker);
      gate(row, RowOf(gate_up, t), RowOf(gate_up, t) + out.cols, out.cols);
      StoreRow(out, t, row);
    }
  });
}

void CpuOps::DoGatherRows(TensorView out, ConstTensorView x, ConstTensorView rows) {
  const double cost = kCopyCost * static_cast<double>(x.cols());
  Parallel(rows.rows(), cost, [&](int64_t begin, int64_t end, int) {
    for (int64_t s = begin; s < end; ++s) {
      const int32_t row = *RowOf<int32_t>(rows, s);
      SLUICE_CHECK(row >= 0 && row < x.rows()) << "row " << row << " of " << x.rows();
      std::memcpy(RowOf(out, s), RowOf(x, row), static_cast<size_t>(x.cols()) * sizeof(float));
    }
  });
}

void CpuOps::DoCopyBlocks(const KvLayerView& kv, std::span<const BlockCopy> copies) {
  // A copy may read what the one before it wrote, so they follow one another; each is shared out.
  constexpr int64_t kPiece = 16 << 10;
  const int64_t pieces = (kv.block_bytes + kPiece - 1) / kPiece;
  for (const BlockCopy& copy : copies) {
    const std::byte* const from = kv.base + copy.from * kv.block_bytes;
    std::byte* const to = kv.base + copy.to * kv.block_bytes;
    Parallel(pieces, kCopyCost * (kPiece / 4), [&](int64_t begin, int64_t end, int) {
      const int64_t first = begin * kPiece;
      const int64_t bytes = std::min(end * kPiece, kv.block_bytes) - first;
      std::memcpy(to + first, from + first, static_cast<size_t>(bytes));
    });
  }
}

}  // namespace sluice::kernels
