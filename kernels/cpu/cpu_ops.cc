#include "kernels/cpu/cpu_ops.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "kernels/check.h"

namespace sluice::kernels {
namespace {

// Rough costs in nanoseconds, to choose chunks by.
constexpr double kNormCost = 0.15;   // an element
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
  auto* blocks = reinterpret_cast<Q8Block*>(out.data + row * out.row_bytes);
  kernels_.quantize(values, out.cols, blocks);
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

void CpuOps::DoMatMul(TensorView out, const ActivationView& in, const WeightView& weight,
                      ConstTensorView bias) {
  if (in.rows == 0) return;
  const PackedLayout packed(kernels_, weight.dtype, weight.rows, weight.cols);
  const auto format = static_cast<size_t>(packed.format());
  const bool int8 = in.format == ActivationFormat::kQ8;
  const auto first_q8 = static_cast<size_t>(PanelFormat::kQ8_0);
  SLUICE_CHECK(!int8 || (format >= first_q8 && packed.format() != PanelFormat::kRaw))
      << InfoOf(weight.dtype).name << " has no product with int8 activations";
  SLUICE_CHECK_EQ(in.row_bytes, CpuActivationRowBytes(in.format, in.cols));
  const auto kernel = int8 ? kernels_.matmul_q8[format - first_q8] : kernels_.matmul_f32[format];

  MatMulTask task;
  task.out = RowOf(out, 0), task.out_stride = out.stride;
  task.in = in.data, task.in_stride = in.row_bytes, task.columns = in.rows;
  task.weight = weight.data, task.panel_bytes = packed.panel_bytes();
  task.rows = weight.rows, task.cols = weight.cols;
  task.bias = static_cast<const float*>(bias.data);
  struct Raw {
    const PackedLayout& layout;
    const std::byte* data;
  } raw{packed, weight.data};
  task.unpack_context = &raw;
  task.unpack_raw = [](const void* context, int64_t panel, int64_t k0, int64_t depth, float* to) {
    const Raw& source = *static_cast<const Raw*>(context);
    source.layout.UnpackRawPanel(source.data, panel, k0, depth, to);
  };

  // Chunks are strips of panels. With few columns the weights come from memory and a strip is as
  // long as balance allows; with many it should stay in the core's cache while they pass.
  const int64_t strip = StripPanels(packed.panels(), packed.panel_bytes(), in.rows, int8);
  const auto chunks = static_cast<int>((packed.panels() + strip - 1) / strip);
  const int64_t scratch_floats = int8 ? kernels_.q8_columns * in.row_bytes / int64_t{sizeof(float)}
                                      : kernels_.f32_scratch_floats;
  pool_.Run(chunks, [&](int chunk, int worker) {
    MatMulTask part = task;
    part.panel_begin = chunk * strip;
    part.panel_end = std::min(part.panel_begin + strip, packed.panels());
    part.scratch = ScratchOf(worker).Floats(scratch_floats);
    kernel(part);
  });
}

int64_t CpuOps::StripPanels(int64_t panels, int64_t panel_bytes, int64_t columns, bool int8) const {
  constexpr int64_t kStripBytes = 128 << 10, kChunksPerThread = 8, kPanelsTogether = 8;
  const int64_t chunks = pool_.threads() == 1 ? 1 : pool_.threads() * kChunksPerThread;
  int64_t strip = std::max<int64_t>((panels + chunks - 1) / chunks, 1);
  strip = std::min(strip, std::max<int64_t>(kStripBytes / panel_bytes, 1));
  // Float products of few columns work on several panels side by side.
  if (!int8) {
    const int64_t together = columns == 1 ? kPanelsTogether : columns <= 3 ? 4 : 2;
    strip = (strip + together - 1) / together * together;
  }
  return std::max(strip, (panels + ThreadPool::kChunksMax - 1) / ThreadPool::kChunksMax);
}

}  // namespace sluice::kernels
