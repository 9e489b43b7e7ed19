#include <cstdlib>
#include <cstring>

#include "kernels/backend.h"
#include "kernels/check.h"
#include "kernels/reference/activation.h"
#include "kernels/reference/reference_ops.h"

namespace sluice::kernels {
namespace {

constexpr size_t kAlignment = 64;

class ReferenceBackend final : public Backend {
 public:
  explicit ReferenceBackend(ActivationMode activations) : activations_(activations) {}

  std::string Describe() const override {
    return activations_ == ActivationMode::kInt8
               ? "reference (scalar, one thread), int8 activations"
               : "reference (scalar, one thread), f32 activations";
  }
  Ops& ops() override { return ops_; }

  std::byte* Allocate(size_t bytes) override {
    void* data = nullptr;
    const size_t at_least_one = bytes == 0 ? 1 : bytes;
    if (posix_memalign(&data, kAlignment, at_least_one) != 0) return nullptr;
    std::memset(data, 0, at_least_one);
    return static_cast<std::byte*>(data);
  }
  void Free(std::byte* data) override { std::free(data); }
  void CopyIn(void* device, const void* host, size_t bytes) override { Copy(device, host, bytes); }
  void CopyOut(void* host, const void* device, size_t bytes) override { Copy(host, device, bytes); }
  void Synchronize() override {}

  ActivationFormat ActivationFormatFor(DType weight) const override {
    const bool blocks = InfoOf(weight).block_elements > 1;
    return blocks && activations_ == ActivationMode::kInt8 ? ActivationFormat::kQ8
                                                           : ActivationFormat::kF32;
  }
  int64_t ActivationRowBytes(ActivationFormat format, int64_t cols) const override {
    return ReferenceActivationRowBytes(format, cols);
  }
  size_t PackedBytes(DType dtype, int64_t rows, int64_t cols) const override {
    return static_cast<size_t>(rows) * static_cast<size_t>(BytesOf(dtype, cols));
  }

  WeightView PackWeight(std::byte* destination, std::span<const RawMatrix> parts) override {
    SLUICE_CHECK(!parts.empty());
    WeightView weight{parts[0].dtype, 0, parts[0].cols, destination};
    for (const RawMatrix& part : parts) {
      SLUICE_CHECK(part.dtype == weight.dtype) << "parts of different formats";
      SLUICE_CHECK_EQ(part.cols, weight.cols);
      const size_t bytes = PackedBytes(part.dtype, part.rows, part.cols);
      Copy(destination, part.data, bytes);
      destination += bytes;
      weight.rows += part.rows;
    }
    return weight;
  }

 private:
  static void Copy(void* to, const void* from, size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }

  const ActivationMode activations_;
  ReferenceOps ops_;
};

}  // namespace

std::unique_ptr<Backend> CreateReferenceBackend(const BackendOptions& options) {
  return std::make_unique<ReferenceBackend>(options.activations);
}

}  // namespace sluice::kernels
