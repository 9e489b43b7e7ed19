#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace sluice::engine {

// A value that one thread publishes and any thread reads without a lock (a sequence lock over
// relaxed atomics, after Boehm 2012, "Can seqlocks get along with programming language memory
// models?"). The writer never waits; a reader tries again if it met a write.
template <typename T>
class Snapshot {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(uint64_t) == 0);

 public:
  // One thread only.
  void Publish(const T& value) {
    std::array<uint64_t, kWords> words;
    std::memcpy(words.data(), &value, sizeof value);
    const uint64_t version = version_.load(std::memory_order_relaxed);
    version_.store(version + 1, std::memory_order_relaxed);
    for (size_t i = 0; i < kWords; ++i) words_[i].store(words[i], std::memory_order_release);
    version_.store(version + 2, std::memory_order_release);
  }

  T Read() const {
    for (;;) {
      std::array<uint64_t, kWords> words;
      const uint64_t before = version_.load(std::memory_order_acquire);
      for (size_t i = 0; i < kWords; ++i) words[i] = words_[i].load(std::memory_order_acquire);
      const uint64_t after = version_.load(std::memory_order_relaxed);
      if (before != after || before % 2 != 0) continue;
      T value;
      std::memcpy(static_cast<void*>(&value), words.data(), sizeof value);
      return value;
    }
  }

 private:
  static constexpr size_t kWords = sizeof(T) / sizeof(uint64_t);
  std::atomic<uint64_t> version_{0};
  std::array<std::atomic<uint64_t>, kWords> words_{};
};

}  // namespace sluice::engine
