#include "engine/output/stop_matcher.h"

#include <algorithm>

#include "engine/tokenizer/utf8.h"

namespace sluice::engine {

StopMatcher::StopMatcher(const std::vector<std::string>& stop_strings) {
  for (size_t index = 0; index < stop_strings.size(); ++index) {
    const std::string& text = stop_strings[index];
    if (text.empty() || !IsValidUtf8(text)) continue;
    Pattern pattern{text, index, std::vector<uint32_t>(text.size() + 1, 0)};
    for (size_t i = 1; i < text.size(); ++i) {
      pattern.failure[i + 1] = Step(pattern, pattern.failure[i], text[i]);
    }
    patterns_.push_back(std::move(pattern));
  }
  matched_.assign(patterns_.size(), 0);
}

uint32_t StopMatcher::Step(const Pattern& pattern, uint32_t matched, char byte) {
  while (matched > 0 && (matched == pattern.text.size() || pattern.text[matched] != byte)) {
    matched = pattern.failure[matched];
  }
  return pattern.text[matched] == byte ? matched + 1 : 0;
}

size_t StopMatcher::LongestPartial() const {
  return matched_.empty() ? 0 : *std::max_element(matched_.begin(), matched_.end());
}

bool StopMatcher::Push(std::string_view text) {
  if (empty()) return false;
  for (char byte : text) {
    ++position_;
    for (size_t i = 0; i < patterns_.size(); ++i) {
      const Pattern& pattern = patterns_[i];
      matched_[i] = Step(pattern, matched_[i], byte);
      if (matched_[i] < pattern.text.size()) continue;
      const size_t begin = position_ - pattern.text.size();
      if (!best_ || begin < best_->begin) best_ = {begin, position_, pattern.index};
      matched_[i] = 0;  // what follows of the same string begins later and loses
    }
    if (best_ && position_ - LongestPartial() >= best_->begin) return true;
  }
  return false;
}

bool StopMatcher::Finish() { return best_.has_value(); }

size_t StopMatcher::HeldAfter(std::string_view next) const {
  size_t held = 0;
  for (size_t i = 0; i < patterns_.size(); ++i) {
    uint32_t matched = matched_[i];
    for (char byte : next) matched = Step(patterns_[i], matched, byte);
    held = std::max<size_t>(held, matched);
  }
  // A match that waits is held whole: it goes, unless an earlier one takes its place.
  if (best_) held = std::max(held, position_ + next.size() - best_->begin);
  return held;
}

}  // namespace sluice::engine
