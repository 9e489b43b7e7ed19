#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace sluice::engine {

// What a token is, with GGUF's numbers (tokenizer.ggml.token_type).
enum class TokenType : int32_t {
  kUndefined = 0,
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

// A vocabulary as a model file states it. Plain data: the tokenizer does not know model files.
struct TokenizerSpec {
  std::string model;  // "gpt2" (byte-level BPE) is the one supported kind
  std::string pre;    // pre-tokenizer name: "smollm", "gpt-2", "llama-bpe", "qwen2", ...
  std::vector<std::string> tokens;  // in the byte-to-unicode alphabet of GPT-2
  std::vector<std::string> merges;  // "left right", best first
  std::vector<TokenType> types;     // as many as tokens
  int32_t bos_id = -1;              // -1: none
  int32_t eos_id = -1;
  std::vector<int32_t> end_ids;  // every id that ends a turn (eos, eot, eom); without repeats
  bool add_bos = false;
  bool add_eos = false;
};

// Whether control and user-defined tokens inside the text become their ids, or stay ordinary text.
enum class ControlTokens { kPlainText, kParse };

// Byte-level BPE (Sennrich et al. 2016; GPT-2's byte alphabet). Text is not normalised. Immutable
// after Create; every method may be called from any number of threads at once. Time is linear in
// the text (times log of the longest piece), also on hostile text.
class Tokenizer {
 public:
  // InvalidArgument, naming the key and the value, when the spec is malformed or of an unknown
  // kind.
  static absl::StatusOr<std::unique_ptr<const Tokenizer>> Create(TokenizerSpec spec);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Token ids of `text`. No bos/eos is added here. Text need not be valid UTF-8: invalid bytes are
  // tokenised as bytes; bytes that have no token are dropped before merging.
  // OutOfRange, as soon as it is known, when there would be more than `max_tokens` ids.
  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text, ControlTokens control,
                                              size_t max_tokens = SIZE_MAX) const;

  // The bytes a token stands for (a control token: its name). Empty for ids outside the vocabulary.
  std::string_view TokenBytes(int32_t id) const;
  bool IsControl(int32_t id) const;  // TokenType kControl or kUnknown
  // Bytes of all ids joined; may be invalid UTF-8. Control tokens are left out when `skip_control`.
  std::string Decode(std::span<const int32_t> ids, bool skip_control) const;

  std::optional<int32_t> TokenId(std::string_view token_bytes) const;
  int32_t vocab_size() const;
  const TokenizerSpec& spec() const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::engine
