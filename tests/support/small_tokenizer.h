#pragma once

#include <memory>

#include "engine/tokenizer/tokenizer.h"

namespace sluice::testing {

// A vocabulary for tests of what happens to tokens: ids 0..255 are the bytes, kEndToken ends a
// turn, and the ids from kFirstWord to kSmallVocabulary-1 are the words " w0", " w1", ...
inline constexpr int32_t kEndToken = 256;
inline constexpr int32_t kFirstWord = 257;
inline constexpr int32_t kSmallVocabulary = 320;

std::shared_ptr<const engine::Tokenizer> SmallTokenizer();

}  // namespace sluice::testing
