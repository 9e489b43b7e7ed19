#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Stop strings by their definition, on a whole text: what the streaming code is held against.
namespace sluice::testing {

struct StopAt {
  size_t begin = 0;
  size_t end = 0;
  std::string stop;
};

// The stop string that begins earliest in `text`, and of those the one that ends first.
inline std::optional<StopAt> FirstStop(const std::vector<std::string>& stops,
                                       std::string_view text) {
  std::optional<StopAt> first;
  for (const std::string& stop : stops) {
    const size_t begin = text.find(stop);
    if (begin == std::string_view::npos) continue;
    const StopAt found{begin, begin + stop.size(), stop};
    if (!first || begin < first->begin || (begin == first->begin && found.end < first->end)) {
      first = found;
    }
  }
  return first;
}

// The length of the longest end of `text` that is the beginning of a stop string, and not all of
// it.
inline size_t LongestPartialStop(const std::vector<std::string>& stops, std::string_view text) {
  size_t longest = 0;
  for (const std::string& stop : stops) {
    for (size_t n = longest + 1; n < stop.size() && n <= text.size(); ++n) {
      if (text.substr(text.size() - n) == std::string_view(stop).substr(0, n)) longest = n;
    }
  }
  return longest;
}

}  // namespace sluice::testing
