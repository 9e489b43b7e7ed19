#include "tests/engine/tokenizer/small_spec.h"

#include <algorithm>
#include <stdexcept>

#include "engine/tokenizer/byte_alphabet.h"

namespace sluice::testing {

using engine::TokenType;

std::string Symbols(std::string_view bytes) {
  std::string symbols;
  for (char byte : bytes) symbols += engine::ByteToSymbol(static_cast<uint8_t>(byte));
  return symbols;
}

SmallSpec::SmallSpec(std::string pre) {
  spec.model = "gpt2";
  spec.pre = std::move(pre);
  for (int byte = 0; byte < 256; ++byte) AddWord(std::string(1, static_cast<char>(byte)));
}

int32_t SmallSpec::AddWord(std::string_view bytes) {
  const std::string token = Symbols(bytes);
  const auto known = std::find(spec.tokens.begin(), spec.tokens.end(), token);
  if (known != spec.tokens.end()) return static_cast<int32_t>(known - spec.tokens.begin());
  spec.tokens.push_back(token);
  spec.types.push_back(TokenType::kNormal);
  return static_cast<int32_t>(spec.tokens.size()) - 1;
}

int32_t SmallSpec::AddMerge(std::string_view left, std::string_view right) {
  spec.merges.push_back(Symbols(left) + " " + Symbols(right));
  return AddWord(std::string(left) + std::string(right));
}

int32_t SmallSpec::AddNamed(std::string_view name, TokenType type) {
  spec.tokens.emplace_back(name);
  spec.types.push_back(type);
  return static_cast<int32_t>(spec.tokens.size()) - 1;
}

std::unique_ptr<const engine::Tokenizer> MakeTokenizer(engine::TokenizerSpec spec) {
  auto tokenizer = engine::Tokenizer::Create(std::move(spec));
  if (!tokenizer.ok()) throw std::runtime_error(engine::Message(tokenizer.status()));
  return std::move(tokenizer).value();
}

}  // namespace sluice::testing
