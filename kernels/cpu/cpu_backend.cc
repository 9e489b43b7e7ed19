#include "kernels/cpu/cpu_backend.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <unordered_map>

#include "kernels/check.h"
#include "kernels/cpu/cpu_isa.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/packed_weight.h"
#include "kernels/cpu/page_populator.h"
#include "kernels/cpu/thread_pool.h"

namespace sluice::kernels {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kMapped = 4 * kHugePage;  // from this size on, memory is mapped

class CpuBackend final : public Backend {
 public:
  CpuBackend(const BackendOptions& options, CpuIsa isa)
      : isa_(isa),
        activations_(options.activations),
        kernels_(KernelsFor(isa)),
        pool_(options.threads),
        ops_(kernels_, pool_) {}

  std::string Describe() const override {
    std::string text = "cpu (";
    text += NameOf(isa_);
    text += ", " + std::to_string(pool_.threads());
    text += pool_.threads() == 1 ? " thread), " : " threads), ";
    text += activations_ == ActivationMode::kInt8 ? "int8" : "f32";
    return text + " activations";
  }
  Ops& ops() override { return ops_; }

  std::byte* Allocate(size_t bytes) override {
    const size_t wanted = std::max<size_t>(bytes, 1);
    if (wanted >= kMapped) return Map(wanted);
    void* data = nullptr;
    if (posix_memalign(&data, kAlignment, wanted) != 0) return nullptr;
    std::memset(data, 0, wanted);
    return static_cast<std::byte*>(data);
  }
  void Free(std::byte* data) override {
    const auto found = mapped_.find(data);
    if (found == mapped_.end()) return std::free(data);
    populator_.Remove(data);
    munmap(data, found->second);
    mapped_.erase(found);
  }
  void CopyIn(void* device, const void* host, size_t bytes) override {
    if (bytes > 0) std::memcpy(device, host, bytes);
  }
  void CopyOut(void* host, const void* device, size_t bytes) override {
    if (bytes > 0) std::memcpy(host, device, bytes);
  }
  void Synchronize() override {}

  ActivationFormat ActivationFormatFor(DType weight) const override {
    const bool has_kernel =
        weight == DType::kQ8_0 || weight == DType::kQ4_0 || weight == DType::kQ4_1;
    return has_kernel && activations_ == ActivationMode::kInt8 ? ActivationFormat::kQ8
                                                               : ActivationFormat::kF32;
  }
  int64_t ActivationRowBytes(ActivationFormat format, int64_t cols) const override {
    return CpuActivationRowBytes(format, cols);
  }
  size_t PackedBytes(DType dtype, int64_t rows, int64_t cols) const override {
    return static_cast<size_t>(PackedLayout(kernels_, dtype, rows, cols).bytes());
  }
  WeightView PackWeight(std::byte* destination, std::span<const RawMatrix> parts) override;

 private:
  // Large memory comes from the kernel, in huge pages if it has them: weights and KV are read in
  // long runs.
  std::byte* Map(size_t bytes) {
    const size_t size = (bytes + kHugePage - 1) / kHugePage * kHugePage;
    void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) return nullptr;
    madvise(data, size, MADV_HUGEPAGE);  // only a wish
    auto* result = static_cast<std::byte*>(data);
    mapped_.emplace(result, size);
    populator_.Add(result, size);
    return result;
  }

  const CpuIsa isa_;
  const ActivationMode activations_;
  const KernelTable& kernels_;
  ThreadPool pool_;
  std::unordered_map<std::byte*, size_t> mapped_;  // their sizes
  PagePopulator populator_{[this] { return pool_.works(); }};
  CpuOps ops_;
};

WeightView CpuBackend::PackWeight(std::byte* destination, std::span<const RawMatrix> parts) {
  SLUICE_CHECK(!parts.empty());
  WeightView weight{parts[0].dtype, 0, parts[0].cols, destination};
  for (const RawMatrix& part : parts) {
    SLUICE_CHECK(part.dtype == weight.dtype) << "parts of different formats";
    SLUICE_CHECK_EQ(part.cols, weight.cols);
    weight.rows += part.rows;
  }
  const PackedLayout packed(kernels_, weight.dtype, weight.rows, weight.cols);
  std::memset(destination, 0, static_cast<size_t>(packed.bytes()));
  int64_t first_row = 0;
  for (const RawMatrix& part : parts) {
    const int64_t row_bytes = BytesOf(part.dtype, part.cols);
    const auto chunks = static_cast<int>(std::min<int64_t>((part.rows + 63) / 64, 1024));
    pool_.Run(chunks, [&](int chunk, int) {
      const int64_t begin = part.rows * chunk / chunks, end = part.rows * (chunk + 1) / chunks;
      for (int64_t r = begin; r < end; ++r) {
        packed.PackRow(part.data + r * row_bytes, first_row + r, destination);
      }
    });
    first_row += part.rows;
  }
  return weight;
}

}  // namespace

std::unique_ptr<Backend> CreateCpuBackend(const BackendOptions& options, CpuIsa isa) {
  const std::vector<CpuIsa> supported = SupportedCpuIsas();
  SLUICE_CHECK(std::find(supported.begin(), supported.end(), isa) != supported.end())
      << NameOf(isa) << " is not supported by this processor";
  return std::make_unique<CpuBackend>(options, isa);
}

}  // namespace sluice::kernels
