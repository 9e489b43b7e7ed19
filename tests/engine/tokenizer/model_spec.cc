#include "tests/engine/tokenizer/model_spec.h"

#include <stdexcept>

#include "engine/load_tokenizer.h"
#include "engine/model/gguf.h"
#include "tests/engine/tokenizer/small_spec.h"
#include "tests/support/test_paths.h"

namespace sluice::testing {

engine::TokenizerSpec ModelSpec() {
  const auto file = engine::GgufFile::Open(DefaultModelPath());
  if (!file.ok()) throw std::runtime_error(engine::Message(file.status()));
  auto spec = engine::TokenizerSpecFromGguf(**file);
  if (!spec.ok()) throw std::runtime_error(engine::Message(spec.status()));
  return std::move(spec).value();
}

const engine::Tokenizer& ModelTokenizer() {
  static const std::unique_ptr<const engine::Tokenizer> tokenizer = MakeTokenizer(ModelSpec());
  return *tokenizer;
}

}  // namespace sluice::testing
