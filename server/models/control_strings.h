#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/tokenizer/tokenizer.h"

namespace sluice::server {

// Keeps the text of users from becoming control tokens.
//
// A chat prompt is template text, which may name control tokens ("<|im_start|>"), mixed with the
// callers' text, which may contain the same strings and must stay text. Marking the callers' text
// as a whole would disturb templates, which trim, compare and split it. So only where it matters is
// a mark put in: before rendering, each control string in a caller's text is broken by one
// character that occurs nowhere else (a private-use code point), after its first character. Broken
// strings match nothing. After rendering, the text is cut at the control strings that are whole,
// which are the template's; the pieces in between lose their marks, and a piece that turns out to
// hold a control string is encoded as plain text.
//
// A caller's text could also supply just the end or the beginning of a control string and find the
// rest in what the template puts beside it; so a mark also goes where the text ends with a
// beginning of one, or begins with an end of one.
//
// Text without control strings is never touched, so its tokens are exactly those of the tokenizer.
class ControlStrings {
 public:
  explicit ControlStrings(const engine::Tokenizer& tokenizer);

  // Length of the longest control string at text[at], or 0; its id in *id.
  size_t MatchAt(std::string_view text, size_t at, int32_t* id) const;
  bool Contains(std::string_view text) const;

  // Which marks a text gets: a value that templates compare with words of their own (a keyword
  // argument) gets none at its borders.
  enum class Borders { kMark, kLeave };
  bool NeedsMarks(std::string_view text, Borders borders) const;
  std::string Mark(std::string_view text, std::string_view mark, Borders borders) const;

  // The ids of a rendered prompt whose callers' texts were marked with `mark` (empty: none was).
  // OutOfRange when there would be more than `max_tokens`.
  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view rendered, std::string_view mark,
                                              size_t max_tokens) const;

 private:
  struct Node {
    std::map<unsigned char, int32_t> next;
    int32_t id = -1;
  };
  bool EndsInside(std::string_view text) const;
  bool BeginsInside(std::string_view text) const;
  absl::Status EncodePiece(std::string piece, std::string_view mark, size_t max_tokens,
                           std::vector<int32_t>* ids) const;

  const engine::Tokenizer& tokenizer_;
  std::vector<std::string> strings_;
  std::vector<Node> nodes_;  // a trie; nodes_[0] is its root
  size_t longest_ = 0;
};

// Collects the callers' texts of one request and finds a mark that none of them contains.
class MarkChooser {
 public:
  void See(std::string_view text);
  // One UTF-8 character of the supplementary private use area A; empty when all are taken.
  std::string Choose() const;

 private:
  std::vector<bool> taken_ = std::vector<bool>(0x10000, false);
};

}  // namespace sluice::server
