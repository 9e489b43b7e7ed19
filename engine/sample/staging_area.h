#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "kernels/backend.h"

namespace sluice::engine {

// A piece of a StagingArea: written on the host, read on the device once sent.
template <typename T>
struct Staged {
  std::span<T> host;
  const T* device = nullptr;
};

// A step's small arrays: filled in host memory one after another, then copied to the device in one
// piece. Reused from step to step; grows only when a step needs more than every one before. Used by
// one thread, the backend's.
class StagingArea {
 public:
  explicit StagingArea(kernels::Backend& backend) : backend_(backend) {}
  ~StagingArea();
  StagingArea(const StagingArea&) = delete;
  StagingArea& operator=(const StagingArea&) = delete;

  // Bytes that Take<T>(n) uses.
  template <typename T>
  static size_t BytesFor(size_t n) {
    return Padded(n * sizeof(T));
  }

  // Makes room for `bytes`, from the start. Pieces handed out before are void.
  void Reset(size_t bytes);
  // The next `n` elements. CHECKs that Reset was told of them. Their values are unspecified.
  template <typename T>
  Staged<T> Take(size_t n) {
    const size_t at = Cut(BytesFor<T>(n));
    return {{reinterpret_cast<T*>(host_.data() + at), n}, reinterpret_cast<const T*>(device_ + at)};
  }
  // Copies what was taken to the device.
  void Send();

  size_t capacity() const { return host_.size(); }

 private:
  static size_t Padded(size_t bytes) { return (bytes + 63) / 64 * 64; }
  size_t Cut(size_t bytes);

  kernels::Backend& backend_;
  std::vector<std::byte> host_;
  std::byte* device_ = nullptr;
  size_t used_ = 0;
};

}  // namespace sluice::engine
