#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace sluice::server {

// An amount of bytes that many requests share. Thread-safe.
class ByteBudget {
 public:
  // `free_bytes`: of each hold, that do not count.
  ByteBudget(size_t bytes_max, size_t free_bytes)
      : bytes_max_(bytes_max), free_bytes_(free_bytes) {}

  size_t bytes_max() const { return bytes_max_; }
  size_t free_bytes() const { return free_bytes_; }
  size_t used() const { return used_.load(std::memory_order_relaxed); }

  bool Take(size_t bytes) {
    if (bytes == 0) return true;
    size_t used = used_.load(std::memory_order_relaxed);
    do {
      if (bytes > bytes_max_ - used) return false;
    } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    return true;
  }
  void Return(size_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }

 private:
  const size_t bytes_max_;
  const size_t free_bytes_;
  std::atomic<size_t> used_{0};
};

// One holder's share, given back with it. Not thread-safe.
class ByteHold {
 public:
  explicit ByteHold(std::shared_ptr<ByteBudget> budget) : budget_(std::move(budget)) {}
  ~ByteHold() { budget_->Return(held_); }
  ByteHold(const ByteHold&) = delete;
  ByteHold& operator=(const ByteHold&) = delete;

  // False when the budget has no room for `bytes` in all; what was held stays held.
  bool GrowTo(size_t bytes) {
    const size_t counted = bytes > budget_->free_bytes() ? bytes - budget_->free_bytes() : 0;
    if (counted <= held_) return true;
    if (!budget_->Take(counted - held_)) return false;
    held_ = counted;
    return true;
  }

 private:
  const std::shared_ptr<ByteBudget> budget_;
  size_t held_ = 0;
};

}  // namespace sluice::server
