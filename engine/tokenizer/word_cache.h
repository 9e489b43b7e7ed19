#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace sluice::engine {

// What short pieces of text encode to, as far as one thread has lately seen: most of a text is few
// words. Direct-mapped, half a megabyte a thread, shared by all tokenizers that the thread uses
// (each has a number of its own, never reused). Not thread-safe: every thread has one.
class WordCache {
 public:
  static constexpr size_t kWordBytesMax = 16;
  static constexpr size_t kIdsMax = 8;

  static WordCache& ForThisThread();

  struct Entry {
    uint64_t low = 0;  // the word's bytes, by Pack
    uint64_t high = 0;
    uint32_t tokenizer = 0;  // 0: empty
    uint16_t length = 0;     // bytes in the word
    uint16_t count = 0;      // ids
    std::array<int32_t, kIdsMax> ids{};

    std::span<const int32_t> value() const { return {ids.data(), count}; }
  };

  // The place for `word` (1 to kWordBytesMax bytes); `hit` tells whether it holds the word. Valid
  // until the next call.
  Entry* Find(std::string_view word, uint32_t tokenizer, bool* hit);
  // Fills the place that Find gave for the word; at most kIdsMax ids.
  static void Fill(Entry* entry, std::string_view word, uint32_t tokenizer,
                   std::span<const int32_t> ids);

 private:
  static constexpr size_t kEntries = 8192;
  std::vector<Entry> entries_ = std::vector<Entry>(kEntries);
};

}  // namespace sluice::engine
