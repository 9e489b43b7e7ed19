#include "tests/kernels/device.h"

#include "kernels/check.h"
#include "kernels/numeric.h"

namespace sluice::kernels::testing {
namespace {

// [n, n] in Q8_0 with every quantum 1.
RawWeight Identity(int64_t n) {
  const int64_t row_bytes = BytesOf(DType::kQ8_0, n);
  RawWeight w{DType::kQ8_0, n, n, std::vector<std::byte>(static_cast<size_t>(n * row_bytes))};
  const uint16_t one = FloatToHalf(1.0f);
  for (int64_t row = 0; row < n; ++row) {
    std::byte* bytes = w.bytes.data() + row * row_bytes;
    for (int64_t block = 0; block < n / 32; ++block) std::memcpy(bytes + block * 34, &one, 2);
    bytes[row / 32 * 34 + 2 + row % 32] = std::byte{1};
  }
  return w;
}

}  // namespace

Device::Device(const Subject& subject, ActivationMode mode, int threads)
    : backend_(subject.create({mode, threads})) {}

Device::~Device() {
  for (std::byte* data : allocations_) backend_->Free(data);
}

std::byte* Device::Allocate(size_t bytes) {
  std::byte* data = backend_->Allocate(bytes == 0 ? 1 : bytes);
  SLUICE_CHECK(data != nullptr) << bytes << " bytes";
  allocations_.push_back(data);
  return data;
}

WeightView Device::Pack(std::span<const RawMatrix> parts) {
  int64_t rows = 0;
  for (const RawMatrix& part : parts) rows += part.rows;
  std::byte* data = Allocate(backend_->PackedBytes(parts[0].dtype, rows, parts[0].cols));
  return backend_->PackWeight(data, parts);
}

WeightView Device::Pack(const RawWeight& weight) {
  const RawMatrix parts[] = {weight.view()};
  return Pack(parts);
}

ActivationView Device::NewActivation(ActivationFormat format, int64_t rows, int64_t cols) {
  const int64_t row_bytes = backend_->ActivationRowBytes(format, cols);
  return {Allocate(static_cast<size_t>(rows * row_bytes)), format, rows, cols, row_bytes};
}

ActivationView Device::LoadActivation(ActivationFormat format, const std::vector<float>& values,
                                      int64_t rows, int64_t cols) {
  std::vector<float> gate_up(values.size() * 2, 64.0f);
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t i = 0; i < cols; ++i) {
      gate_up[static_cast<size_t>(t * 2 * cols + cols + i)] =
          values[static_cast<size_t>(t * cols + i)] / 64.0f;
    }
  }
  const ActivationView view = NewActivation(format, rows, cols);
  ops().GatedActivation(view, Matrix(Upload(gate_up), rows, 2 * cols), GateKind::kSilu);
  return view;
}

std::vector<float> Device::ReadActivation(const ActivationView& view) {
  const auto rows = static_cast<size_t>(view.rows), cols = static_cast<size_t>(view.cols);
  if (view.format == ActivationFormat::kF32) {
    const auto row_bytes = static_cast<size_t>(view.row_bytes);
    const auto bytes = Download<std::byte>(view.data, view.rows * view.row_bytes);
    std::vector<float> values(rows * cols);
    for (size_t t = 0; t < rows; ++t) {
      std::memcpy(values.data() + t * cols, bytes.data() + t * row_bytes, cols * sizeof(float));
    }
    return values;
  }
  const WeightView identity = Pack(Identity(view.cols));
  float* out = Floats(view.rows * view.cols);
  ops().MatMul(Matrix(out, view.rows, view.cols), view, identity);
  return Download<float>(out, view.rows * view.cols);
}

ActivationView RowsOf(const ActivationView& view, int64_t first, int64_t count) {
  ActivationView rows = view;
  rows.data += first * view.row_bytes;
  rows.rows = count;
  return rows;
}

}  // namespace sluice::kernels::testing
