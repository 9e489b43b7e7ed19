#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/output/stop_matcher.h"
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
  // Adds decoded text to what is held and gives what is safe; ends the text when a stop string
  // matched.
  Piece Advance(std::string_view text);
  Piece End();

  const Tokenizer* tokenizer_;
  Options options_;
  StopMatcher stops_;
  std::string partial_;     // bytes of a character that is not whole yet (up to 3)
  std::string held_;        // decoded text that is not yet safe to emit
  size_t searched_ = 0;     // decoded bytes that stop strings were looked for in; held_ ends there
  int32_t tokens_ = 0;      // of those that are not searched
  bool searching_ = false;  // past the tokens whose text is not searched
  bool stopped_ = false;
};

}  // namespace sluice::engine
