#include "server/models/control_strings.h"

#include <algorithm>

namespace sluice::server {
namespace {

size_t CharacterLength(std::string_view text, size_t at) {
  size_t end = at + 1;
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
  return end - at;
}

}  // namespace

ControlStrings::ControlStrings(const engine::Tokenizer& tokenizer)
    : tokenizer_(tokenizer), nodes_(1) {
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (!tokenizer.IsControl(id)) continue;
    const std::string_view bytes = tokenizer.TokenBytes(id);
    if (bytes.empty()) continue;
    strings_.emplace_back(bytes);
    longest_ = std::max(longest_, bytes.size());
    int32_t node = 0;
    for (const char c : bytes) {
      const auto [entry, added] = nodes_[static_cast<size_t>(node)].next.emplace(
          static_cast<unsigned char>(c), static_cast<int32_t>(nodes_.size()));
      node = entry->second;
      if (added) nodes_.emplace_back();
    }
    nodes_[static_cast<size_t>(node)].id = id;
  }
}

size_t ControlStrings::MatchAt(std::string_view text, size_t at, int32_t* id) const {
  size_t length = 0;
  size_t node = 0;
  for (size_t i = at; i < text.size(); ++i) {
    const auto found = nodes_[node].next.find(static_cast<unsigned char>(text[i]));
    if (found == nodes_[node].next.end()) break;
    node = static_cast<size_t>(found->second);
    if (nodes_[node].id >= 0) {
      length = i + 1 - at;
      *id = nodes_[node].id;
    }
  }
  return length;
}

bool ControlStrings::Contains(std::string_view text) const {
  int32_t id = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (MatchAt(text, i, &id) > 0) return true;
  }
  return false;
}

bool ControlStrings::EndsInside(std::string_view text) const {
  const size_t begin = text.size() > longest_ ? text.size() - longest_ : 0;
  for (size_t at = begin; at < text.size(); ++at) {
    size_t node = 0;
    size_t i = at;
    for (; i < text.size(); ++i) {
      const auto found = nodes_[node].next.find(static_cast<unsigned char>(text[i]));
      if (found == nodes_[node].next.end()) break;
      node = static_cast<size_t>(found->second);
    }
    if (i == text.size() && !nodes_[node].next.empty()) return true;
  }
  return false;
}

bool ControlStrings::BeginsInside(std::string_view text) const {
  // A proper end of a control string at the text's beginning, or the text wholly inside one.
  for (const std::string& control : strings_) {
    for (size_t cut = 1; cut < control.size(); ++cut) {
      const std::string_view rest = std::string_view(control).substr(cut);
      if (text.starts_with(rest) || rest.starts_with(text)) return true;
    }
  }
  return false;
}

bool ControlStrings::NeedsMarks(std::string_view text, Borders borders) const {
  if (text.empty()) return false;
  if (Contains(text)) return true;
  return borders == Borders::kMark && (EndsInside(text) || BeginsInside(text));
}

std::string ControlStrings::Mark(std::string_view text, std::string_view mark,
                                 Borders borders) const {
  if (text.empty()) return {};
  const bool border_marks = borders == Borders::kMark;
  std::string out;
  if (border_marks && BeginsInside(text)) out += mark;
  int32_t id = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t length = CharacterLength(text, i);
    const bool control = MatchAt(text, i, &id) > 0;
    out.append(text, i, length);
    if (control) out += mark;
    i += length;
  }
  if (border_marks && EndsInside(text)) out += mark;
  return out;
}

absl::Status ControlStrings::EncodePiece(std::string piece, std::string_view mark,
                                         size_t max_tokens, std::vector<int32_t>* ids) const {
  for (size_t at = piece.find(mark); at != std::string::npos; at = piece.find(mark, at)) {
    piece.erase(at, mark.size());
  }
  const auto control =
      Contains(piece) ? engine::ControlTokens::kPlainText : engine::ControlTokens::kParse;
  SLUICE_ASSIGN_OR_RETURN(const std::vector<int32_t> part,
                          tokenizer_.Encode(piece, control, max_tokens - ids->size()));
  ids->insert(ids->end(), part.begin(), part.end());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int32_t>> ControlStrings::Encode(std::string_view rendered,
                                                            std::string_view mark,
                                                            size_t max_tokens) const {
  if (mark.empty()) return tokenizer_.Encode(rendered, engine::ControlTokens::kParse, max_tokens);
  std::vector<int32_t> ids;
  size_t begin = 0;
  for (size_t i = 0; i < rendered.size();) {
    int32_t id = 0;
    const size_t length = MatchAt(rendered, i, &id);
    if (length == 0) {
      ++i;
      continue;
    }
    SLUICE_RETURN_IF_ERROR(
        EncodePiece(std::string(rendered.substr(begin, i - begin)), mark, max_tokens, &ids));
    if (ids.size() >= max_tokens) return engine::OutOfRange("too many tokens");
    ids.push_back(id);
    i += length;
    begin = i;
  }
  SLUICE_RETURN_IF_ERROR(EncodePiece(std::string(rendered.substr(begin)), mark, max_tokens, &ids));
  return ids;
}

void MarkChooser::See(std::string_view text) {
  // U+F0000..U+FFFFF are F3 B0..BF xx xx.
  for (size_t i = 0; i + 3 < text.size(); ++i) {
    const auto byte = [&](size_t k) { return static_cast<unsigned char>(text[i + k]); };
    if (byte(0) != 0xF3 || byte(1) < 0xB0 || byte(1) > 0xBF) continue;
    taken_[static_cast<size_t>((byte(1) & 0x0F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F))] =
        true;
  }
}

std::string MarkChooser::Choose() const {
  // The last two code points of each plane are not characters.
  for (uint32_t low = 0; low < 0xFFFE; ++low) {
    if (taken_[low]) continue;
    const uint32_t code = 0xF0000 + low;
    return {static_cast<char>(0xF0 | code >> 18), static_cast<char>(0x80 | (code >> 12 & 0x3F)),
            static_cast<char>(0x80 | (code >> 6 & 0x3F)), static_cast<char>(0x80 | (code & 0x3F))};
  }
  return {};
}

}  // namespace sluice::server
