#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/tokenizer.h"

namespace sluice::engine {

// Turns one sequence's tokens into text as they come: whole UTF-8 characters only, and never text
// that may still turn out to belong to a stop string. Linear in the tokens pushed. Not thread-safe;
// one sequence each; owned by the output thread.
class StreamDecoder {
 public:
  struct Options {
    std::vector<std::string> stop_strings;  // non-empty each
    bool include_stop = false;              // keep the stop string that matched in the text
    bool skip_control = true;               // leave control tokens out of the text
    // Stop strings are not looked for in the text of the first `min_tokens` tokens.
    int32_t min_tokens = 0;
  };
  // `tokenizer` must outlive the decoder.
  StreamDecoder(const Tokenizer* tokenizer, Options options);

  struct Piece {
    std::string text;                         // valid UTF-8, may be empty
    std::optional<std::string> stop_matched;  // the stop string that ended the text
  };
  // Feeds one token. After a stop string has matched, further tokens give nothing.
  Piece Push(int32_t token);
  // What was held back, at the end of the sequence (invalid or unfinished bytes as one U+FFFD
  // each).
  Piece Finish();

 private:
  const Tokenizer* tokenizer_;
  Options options_;
  std::string held_;  // bytes that are not yet safe to emit
  int32_t tokens_ = 0;
  bool stopped_ = false;
};

}  // namespace sluice::engine
