#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "engine/base/status.h"
#include "kernels/backend.h"

namespace sluice::engine {

// Device buffers are cut from one allocation at this alignment, which is Backend::Allocate's.
inline constexpr size_t kDeviceAlignment = 64;
inline size_t AlignUp(size_t bytes) {
  return (bytes + kDeviceAlignment - 1) / kDeviceAlignment * kDeviceAlignment;
}

// An allocation of a backend, which must outlive it.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  // ResourceExhausted when there is not enough; `what` names the use.
  static absl::StatusOr<DeviceMemory> Allocate(kernels::Backend& backend, size_t bytes,
                                               std::string_view what) {
    DeviceMemory memory;
    memory.backend_ = &backend;
    memory.data_ = backend.Allocate(bytes);
    memory.bytes_ = bytes;
    if (memory.data_ == nullptr) {
      return ResourceExhausted("cannot allocate " + std::to_string(bytes) + " bytes for " +
                               std::string(what));
    }
    return memory;
  }
  ~DeviceMemory() {
    if (data_ != nullptr) backend_->Free(data_);
  }
  DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(backend_, other.backend_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  kernels::Backend* backend_ = nullptr;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

// Cuts aligned pieces from a block of memory, one after another. Over a null block it only counts,
// so that the code that lays buffers out is also the code that says how much they need.
class Carver {
 public:
  explicit Carver(std::byte* base) : base_(base) {}
  std::byte* Take(size_t bytes) {
    std::byte* piece = base_ == nullptr ? nullptr : base_ + used_;
    used_ += AlignUp(bytes);
    return piece;
  }
  size_t used() const { return used_; }

 private:
  std::byte* base_;
  size_t used_ = 0;
};

}  // namespace sluice::engine
