#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace sluice::engine {

// Finds control and user-defined tokens in a text by their names: the leftmost, and of those that
// begin there the longest. A trie over bytes behind a filter for the first byte: one pass over the
// text, plus at most the length of the longest name at each byte with which a name begins.
// Immutable once filled.
class ControlScanner {
 public:
  ControlScanner();

  // `name` must not be empty. The first id of a name stands.
  void Add(std::string_view name, int32_t id);

  struct Hit {
    size_t begin = 0;
    size_t length = 0;
    int32_t id = -1;
  };
  // The first hit at or after `from`.
  std::optional<Hit> Next(std::string_view text, size_t from) const;

 private:
  size_t NextCandidate(std::string_view text, size_t from) const;

  static constexpr uint32_t kRoot = 0;
  std::vector<int32_t> id_at_;                        // by node; -1: no name ends there
  absl::flat_hash_map<uint64_t, uint32_t> children_;  // (node << 8 | byte) -> node
  std::array<bool, 256> begins_{};
  int begin_count_ = 0;  // different first bytes
  char only_begin_ = 0;  // the last one added
};

}  // namespace sluice::engine
