#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::engine {

// Looks for stop strings in a text that comes in parts (Knuth, Morris and Pratt 1977, one automaton
// a string). The match is the one that begins earliest; of those that begin together, the one that
// ends first; of equal strings, the first. It does not depend on where the parts begin and end. A
// match is final once no string that began before it can still come: until then it waits for more
// text. Linear in the text (times the number of strings).
class StopMatcher {
 public:
  // Strings that are empty or not valid UTF-8 never match (the text is valid UTF-8).
  explicit StopMatcher(const std::vector<std::string>& stop_strings);

  struct Match {
    size_t begin = 0;  // bytes from the start of the text
    size_t end = 0;
    size_t index = 0;  // of the stop string
  };

  bool empty() const { return patterns_.empty(); }

  // Takes more of the text, up to the byte that makes a match final: true then.
  bool Push(std::string_view text);
  // The text has ended: makes a waiting match final. True when there is a match.
  bool Finish();
  // Once final.
  const Match& match() const { return *best_; }

  // How many bytes at the end of the text so far may still turn out to belong to a match.
  size_t Held() const { return HeldAfter({}); }
  // The same if `next` came after the text, counted from the end of `next`; nothing is taken in.
  size_t HeldAfter(std::string_view next) const;

 private:
  struct Pattern {
    std::string text;
    size_t index;
    std::vector<uint32_t> failure;  // by matched length: the longest border of that prefix
  };

  static uint32_t Step(const Pattern& pattern, uint32_t matched, char byte);
  size_t LongestPartial() const;

  std::vector<Pattern> patterns_;
  std::vector<uint32_t> matched_;  // by pattern: bytes of it that end the text, fewer than all
  size_t position_ = 0;            // bytes taken
  std::optional<Match> best_;      // the best match so far
};

}  // namespace sluice::engine
