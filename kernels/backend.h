#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "kernels/ops.h"
#include "kernels/tensor.h"

namespace sluice::kernels {

// How the left side of a product with a quantised matrix is held.
enum class ActivationMode { kInt8, kF32 };

struct BackendOptions {
  ActivationMode activations = ActivationMode::kInt8;
  int threads = 1;  // compute threads, the calling one included
};

// One device: its memory, its order of work, its arithmetic. Used from one thread (the worker's),
// except the size functions, which are pure.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string Describe() const = 0;  // one line for people: kind, instruction set, threads
  virtual Ops& ops() = 0;

  // Device memory, 64-byte aligned, zeroed; nullptr when there is not enough.
  virtual std::byte* Allocate(size_t bytes) = 0;
  virtual void Free(std::byte* data) = 0;
  virtual void CopyIn(void* device, const void* host, size_t bytes) = 0;
  virtual void CopyOut(void* host, const void* device,
                       size_t bytes) = 0;  // waits for the work before it
  virtual void Synchronize() = 0;

  // The format in which products with a weight of this type want their left side.
  virtual ActivationFormat ActivationFormatFor(DType weight) const = 0;
  virtual int64_t ActivationRowBytes(ActivationFormat format, int64_t cols) const = 0;
  // Bytes of a packed [rows, cols] weight.
  virtual size_t PackedBytes(DType dtype, int64_t rows, int64_t cols) const = 0;
  // Packs the parts, stacked by rows (same dtype and cols), into `destination` (PackedBytes of the
  // whole, 64-byte aligned). Reads host memory.
  virtual WeightView PackWeight(std::byte* destination, std::span<const RawMatrix> parts) = 0;
};

std::unique_ptr<Backend> CreateReferenceBackend(const BackendOptions& options);

}  // namespace sluice::kernels
