#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/tokenizer.h"

namespace sluice::testing {

// `bytes` in the byte-to-unicode alphabet.
std::string Symbols(std::string_view bytes);

// A small vocabulary, built up by hand. Ids count up from 0: first the 256 bytes (id = byte), then
// what is added.
class SmallSpec {
 public:
  explicit SmallSpec(std::string pre = "gpt-2");

  // An ordinary token that no merge makes; if it is there already, its id.
  int32_t AddWord(std::string_view bytes);
  // The token left + right, and the merge that makes it, after all earlier ones. Both must be
  // tokens.
  int32_t AddMerge(std::string_view left, std::string_view right);
  int32_t AddNamed(std::string_view name, engine::TokenType type = engine::TokenType::kControl);

  engine::TokenizerSpec spec;
};

// Throws when the spec is refused.
std::unique_ptr<const engine::Tokenizer> MakeTokenizer(engine::TokenizerSpec spec);

}  // namespace sluice::testing
