#include "engine/tokenizer/control_scanner.h"

#include <cstring>

namespace sluice::engine {
namespace {

uint64_t Edge(uint32_t node, char byte) {
  return (static_cast<uint64_t>(node) << 8) | static_cast<uint8_t>(byte);
}

}  // namespace

ControlScanner::ControlScanner() : id_at_(1, -1) {}

void ControlScanner::Add(std::string_view name, int32_t id) {
  const auto first = static_cast<uint8_t>(name[0]);
  if (!begins_[first]) {
    begins_[first] = true;
    ++begin_count_;
    only_begin_ = name[0];
  }
  uint32_t node = kRoot;
  for (char byte : name) {
    const auto [place, added] =
        children_.try_emplace(Edge(node, byte), static_cast<uint32_t>(id_at_.size()));
    if (added) id_at_.push_back(-1);
    node = place->second;
  }
  if (id_at_[node] < 0) id_at_[node] = id;
}

size_t ControlScanner::NextCandidate(std::string_view text, size_t from) const {
  if (begin_count_ == 0) return text.size();
  if (begin_count_ == 1) {
    const void* at = from < text.size()
                         ? std::memchr(text.data() + from, only_begin_, text.size() - from)
                         : nullptr;
    return at ? static_cast<size_t>(static_cast<const char*>(at) - text.data()) : text.size();
  }
  while (from < text.size() && !begins_[static_cast<uint8_t>(text[from])]) ++from;
  return from;
}

std::optional<ControlScanner::Hit> ControlScanner::Next(std::string_view text, size_t from) const {
  for (size_t begin = NextCandidate(text, from); begin < text.size();
       begin = NextCandidate(text, begin + 1)) {
    Hit hit{.begin = begin};
    uint32_t node = kRoot;
    for (size_t at = begin; at < text.size(); ++at) {
      const auto child = children_.find(Edge(node, text[at]));
      if (child == children_.end()) break;
      node = child->second;
      if (id_at_[node] >= 0) {
        hit.length = at + 1 - begin;
        hit.id = id_at_[node];
      }
    }
    if (hit.id >= 0) return hit;
  }
  return std::nullopt;
}

}  // namespace sluice::engine
