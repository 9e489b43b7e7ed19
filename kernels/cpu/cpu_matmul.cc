#include <algorithm>

#include "kernels/check.h"
#include "kernels/cpu/cpu_ops.h"

namespace sluice::kernels {
namespace {

constexpr int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

// How a product is cut into chunks: a strip of panels times a range of columns (rows of the left
// side) each, all columns of a strip one after another.
struct Cut {
  int64_t panels = 0, columns = 0;  // of a chunk, at most
};

struct Product {
  int64_t panels, panel_bytes, columns, threads;
};

constexpr int64_t kChunksPerThread = 6;
constexpr int64_t kStripBytes = 256 << 10;  // stays in a core's cache while columns pass
constexpr int64_t kStripPanels = 64;        // bounds what is lost to a thread that loses its core

// An int8 product copies a tile's columns side by side first, which is little against eight panels'
// work, and once a thread when there is one tile. A float product unpacks weights first: all
// columns share that.
Cut CutInt8(const Product& p, int64_t tile_columns) {
  if (p.threads == 1) return {p.panels, p.columns};
  const int64_t tiles = DivideUp(p.columns, tile_columns);
  const int64_t least = p.columns == 1 ? 4 : 8;
  const int64_t splits = std::clamp<int64_t>(DivideUp(kChunksPerThread * p.threads, tiles), 1,
                                             std::max<int64_t>(p.panels / least, 1));
  const int64_t strip = std::min({DivideUp(p.panels, splits), kStripPanels,
                                  std::max<int64_t>(kStripBytes / p.panel_bytes, least)});
  return {strip, DivideUp(p.columns, tiles)};
}

Cut CutFloat(const Product& p) {
  const int64_t together = p.columns == 1 ? 8 : p.columns <= 3 ? 4 : 2;  // panels side by side
  if (p.threads == 1) return {p.panels, p.columns};
  const int64_t strip = std::min({DivideUp(p.panels, kChunksPerThread * p.threads), kStripPanels,
                                  std::max<int64_t>(kStripBytes / p.panel_bytes, 1)});
  return {DivideUp(strip, together) * together, p.columns};
}

// A matrix whose panels are unpacked by common code.
struct RawWeight {
  const PackedLayout& layout;
  const std::byte* data;

  static void Unpack(const void* context, int64_t panel, int64_t k0, int64_t depth, float* out) {
    const auto& raw = *static_cast<const RawWeight*>(context);
    raw.layout.UnpackRawPanel(raw.data, panel, k0, depth, out);
  }
};

}  // namespace

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
  const int64_t scratch_floats = int8 ? kernels_.q8_columns * in.row_bytes / int64_t{sizeof(float)}
                                      : kernels_.f32_scratch_floats;
  const RawWeight raw{packed, weight.data};

  MatMulTask task;
  task.out_stride = out.stride, task.in_stride = in.row_bytes;
  task.weight = weight.data, task.panel_bytes = packed.panel_bytes();
  task.rows = weight.rows, task.cols = weight.cols;
  task.bias = static_cast<const float*>(bias.data);
  task.unpack_raw = RawWeight::Unpack, task.unpack_context = &raw;

  const Product product{packed.panels(), packed.panel_bytes(), in.rows, pool_.threads()};
  const Cut cut = int8 ? CutInt8(product, kernels_.q8_columns) : CutFloat(product);
  const int64_t ranges = DivideUp(in.rows, cut.columns);
  const int64_t chunks = DivideUp(packed.panels(), cut.panels) * ranges;
  const int64_t runs = DivideUp(chunks, ThreadPool::kChunksMax);  // one, in practice
  const uint32_t work = pool_.works() + 1;
  pool_.Run(static_cast<int>(DivideUp(chunks, runs)), [&](int first, int worker) {
    MatMulTask part = task;
    part.scratch = ScratchOf(worker).Floats(scratch_floats);
    const int64_t end = std::min<int64_t>((first + 1) * runs, chunks);
    for (int64_t chunk = first * runs; chunk < end; ++chunk) {
      const int64_t column = chunk % ranges * cut.columns;
      part.panel_begin = chunk / ranges * cut.panels;
      part.panel_end = std::min(part.panel_begin + cut.panels, packed.panels());
      part.columns = std::min(cut.columns, in.rows - column);
      part.in = in.data + column * in.row_bytes;
      Gathered& gathered = gathered_[static_cast<size_t>(worker)];
      part.gathered = gathered.work == work && gathered.column == column;
      gathered = part.columns <= kernels_.q8_columns ? Gathered{work, column} : Gathered{};
      part.out = static_cast<float*>(out.data) + column * out.stride;
      kernel(part);
    }
  });
}

}  // namespace sluice::kernels
