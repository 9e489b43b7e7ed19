#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

// What the fuzz targets share: each is one function, LLVMFuzzerTestOneInput, that libFuzzer calls
// with ever new bytes (https://llvm.org/docs/LibFuzzer.html), or replay_main.cc with files.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace sluice::testing {

// Ends the process when a property does not hold: what libFuzzer takes as a finding.
inline void Require(bool holds, std::string_view property, std::string_view detail = {}) {
  if (holds) return;
  std::cerr << "property broken: " << property << "\n" << detail << std::endl;
  std::abort();
}

// Takes an input apart. Reading past the end gives zeros and empty strings.
class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  bool empty() const { return rest_.empty(); }
  uint8_t Byte() {
    if (rest_.empty()) return 0;
    const char byte = rest_.front();
    rest_.remove_prefix(1);
    return static_cast<uint8_t>(byte);
  }
  // Up to the next zero byte, which is dropped, or the end.
  std::string_view Line() {
    const size_t end = std::min(rest_.find('\0'), rest_.size());
    const std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    return line;
  }
  std::string_view Rest() const { return rest_; }

 private:
  std::string_view rest_;
};

// Cuts a text into parts of pseudo-random lengths in [1, longest]; the same seed, the same parts.
class Parts {
 public:
  Parts(std::string_view text, uint32_t seed, size_t longest)
      : rest_(text), state_(seed * 2654435761u + 1), longest_(longest) {}
  bool done() const { return rest_.empty(); }
  std::string_view Next() {
    state_ = state_ * 1664525u + 1013904223u;
    const size_t n = std::min<size_t>(1 + (state_ >> 16) % longest_, rest_.size());
    const std::string_view part = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return part;
  }

 private:
  std::string_view rest_;
  uint32_t state_;
  size_t longest_;
};

}  // namespace sluice::testing
