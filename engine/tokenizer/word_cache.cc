#include "engine/tokenizer/word_cache.h"

#include <algorithm>
#include <cstring>

namespace sluice::engine {
namespace {

template <typename T>
uint64_t Load(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

// The bytes in two words, by loads that may overlap. With the length beside them they determine the
// bytes.
void Pack(std::string_view word, uint64_t* low, uint64_t* high) {
  const char* const p = word.data();
  const size_t n = word.size();
  *high = 0;
  if (n >= 8) {
    *low = Load<uint64_t>(p);
    *high = Load<uint64_t>(p + n - 8);
  } else if (n >= 4) {
    *low = Load<uint32_t>(p) | (Load<uint32_t>(p + n - 4) << 32);
  } else {
    *low = Load<uint8_t>(p) | (Load<uint8_t>(p + n / 2) << 8) | (Load<uint8_t>(p + n - 1) << 16);
  }
}

}  // namespace

WordCache& WordCache::ForThisThread() {
  thread_local WordCache cache;
  return cache;
}

WordCache::Entry* WordCache::Find(std::string_view word, uint32_t tokenizer, bool* hit) {
  uint64_t low;
  uint64_t high;
  Pack(word, &low, &high);
  uint64_t hash = (low ^ (high * 0x9E3779B97F4A7C15u) ^ word.size()) * 0xD6E8FEB86659FD93u;
  hash ^= hash >> 32;
  hash *= 0xD6E8FEB86659FD93u;
  Entry* const entry = &entries_[hash >> 51];  // the top 13 bits
  static_assert(kEntries == size_t{1} << 13);
  *hit = entry->low == low && entry->high == high && entry->length == word.size() &&
         entry->tokenizer == tokenizer;
  return entry;
}

void WordCache::Fill(Entry* entry, std::string_view word, uint32_t tokenizer,
                     std::span<const int32_t> ids) {
  Pack(word, &entry->low, &entry->high);
  entry->length = static_cast<uint16_t>(word.size());
  entry->tokenizer = tokenizer;
  entry->count = static_cast<uint16_t>(ids.size());
  std::copy(ids.begin(), ids.end(), entry->ids.begin());
}

}  // namespace sluice::engine
