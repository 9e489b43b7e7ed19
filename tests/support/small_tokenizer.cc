#include "tests/support/small_tokenizer.h"

#include <cstdlib>
#include <iostream>
#include <utility>

#include "engine/tokenizer/byte_alphabet.h"

namespace sluice::testing {

std::shared_ptr<const engine::Tokenizer> SmallTokenizer() {
  engine::TokenizerSpec spec;
  spec.model = "gpt2";
  spec.pre = "gpt-2";
  for (int byte = 0; byte < 256; ++byte)
    spec.tokens.push_back(engine::ByteToSymbol(static_cast<uint8_t>(byte)));
  spec.tokens.push_back("<|end|>");
  const std::string space = engine::ByteToSymbol(' ');
  while (spec.tokens.size() < kSmallVocabulary)
    spec.tokens.push_back(space + "w" + std::to_string(spec.tokens.size() - kFirstWord));
  spec.types.assign(spec.tokens.size(), engine::TokenType::kNormal);
  spec.types[kEndToken] = engine::TokenType::kControl;
  spec.eos_id = kEndToken;
  spec.end_ids = {kEndToken};
  auto tokenizer = engine::Tokenizer::Create(std::move(spec));
  if (!tokenizer.ok()) {
    std::cerr << tokenizer.status() << "\n";
    std::abort();
  }
  return std::move(*tokenizer);
}

}  // namespace sluice::testing
