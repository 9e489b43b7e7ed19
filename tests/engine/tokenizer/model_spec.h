#pragma once

#include "engine/tokenizer/tokenizer.h"

namespace sluice::testing {

// The default model's tokenizer, read from its file once. Throws when it cannot be read.
const engine::Tokenizer& ModelTokenizer();
engine::TokenizerSpec ModelSpec();

}  // namespace sluice::testing
