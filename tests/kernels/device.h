#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "tests/kernels/subjects.h"

namespace sluice::kernels::testing {

// Bytes of a matrix as a file would hold it.
struct RawWeight {
  DType dtype = DType::kF32;
  int64_t rows = 0, cols = 0;
  std::vector<std::byte> bytes;

  RawMatrix view() const { return {dtype, rows, cols, bytes.data()}; }
};

// A backend with the memory that a test put on it, which lives as long as this object.
class Device {
 public:
  Device(const Subject& subject, ActivationMode mode, int threads = 2);
  explicit Device(const SubjectMode& param) : Device(param.subject, param.mode) {}
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  Backend& backend() { return *backend_; }
  Ops& ops() { return backend_->ops(); }

  std::byte* Allocate(size_t bytes);
  template <typename T>
  T* Upload(const std::vector<T>& values) {
    T* data = reinterpret_cast<T*>(Allocate(values.size() * sizeof(T)));
    backend_->CopyIn(data, values.data(), values.size() * sizeof(T));
    return data;
  }
  template <typename T>
  std::vector<T> Download(const void* data, int64_t n) {
    std::vector<T> values(static_cast<size_t>(n));
    backend_->CopyOut(values.data(), data, values.size() * sizeof(T));
    return values;
  }
  float* Floats(int64_t n) { return reinterpret_cast<float*>(Allocate(size_t(n) * sizeof(float))); }

  WeightView Pack(std::span<const RawMatrix> parts);
  WeightView Pack(const RawWeight& weight);

  ActivationView NewActivation(ActivationFormat format, int64_t rows, int64_t cols);
  // The values [rows, cols] as the left side of a product. There is no operation that only
  // converts, so this is silu(64) * (x / 64), in which each factor and the product are exact.
  ActivationView LoadActivation(ActivationFormat format, const std::vector<float>& values,
                                int64_t rows, int64_t cols);
  // The values of an activation [rows, cols]; those of a Q8 one are its product with the identity.
  std::vector<float> ReadActivation(const ActivationView& view);

 private:
  std::unique_ptr<Backend> backend_;
  std::vector<std::byte*> allocations_;
};

// Rows [first, first + count) of an activation.
ActivationView RowsOf(const ActivationView& view, int64_t first, int64_t count);

}  // namespace sluice::kernels::testing
