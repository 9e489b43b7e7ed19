#include "engine/load_tokenizer.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace sluice::engine {
namespace {

constexpr size_t kTokensMax = 1 << 20;

// Texts of control tokens that end a turn in the chat formats in use.
constexpr std::array<std::string_view, 13> kEndTexts{
    "<|im_end|>", "<|endoftext|>",   "<|eot_id|>", "<|eom_id|>", "<end_of_turn>",
    "<|end|>",    "<|end_of_text|>", "<|eot|>",    "<|return|>", "<|call|>",
    "<EOT>",      "<|end_of_turn|>", "</s>",
};

// Pre-tokenizers whose models start every text with bos unless the file says otherwise.
constexpr std::array<std::string_view, 3> kBosByDefault{"llama-bpe", "llama3", "llama-v3"};

absl::Status Bad(const GgufFile& file, std::string_view key, const std::string& what) {
  return InvalidArgument(file.name() + ": key " + Quoted(key) + ": " + what);
}

// A token id; -1 when the key is absent.
absl::StatusOr<int32_t> TokenIdAt(const GgufFile& file, std::string_view key, size_t tokens) {
  SLUICE_ASSIGN_OR_RETURN(const auto id, file.FindInt(key));
  if (!id || *id == -1 || *id == 0xFFFFFFFF) return -1;  // writers state "none" as -1
  if (*id < 0 || static_cast<uint64_t>(*id) >= tokens) {
    return Bad(
        file, key,
        "token id " + std::to_string(*id) + " is not in [0, " + std::to_string(tokens) + ")");
  }
  return static_cast<int32_t>(*id);
}

absl::Status ReadTypes(const GgufFile& file, TokenizerSpec& spec) {
  constexpr std::string_view kKey = "tokenizer.ggml.token_type";
  SLUICE_ASSIGN_OR_RETURN(const auto types, file.FindInts(kKey));
  spec.types.assign(spec.tokens.size(), TokenType::kNormal);
  if (!types) return absl::OkStatus();
  if (types->size() != spec.tokens.size()) {
    return Bad(file, kKey,
               std::to_string(types->size()) + " entries for " +
                   std::to_string(spec.tokens.size()) + " tokens");
  }
  for (size_t i = 0; i < types->size(); ++i) {
    const int64_t type = (*types)[i];
    if (type < 0 || type > static_cast<int64_t>(TokenType::kByte)) {
      return Bad(
          file, kKey,
          "type " + std::to_string(type) + " of token " + std::to_string(i) + " is not in [0, 6]");
    }
    spec.types[i] = static_cast<TokenType>(type);
  }
  return absl::OkStatus();
}

absl::Status ReadSpecialIds(const GgufFile& file, TokenizerSpec& spec) {
  const size_t tokens = spec.tokens.size();
  SLUICE_ASSIGN_OR_RETURN(spec.bos_id, TokenIdAt(file, "tokenizer.ggml.bos_token_id", tokens));
  SLUICE_ASSIGN_OR_RETURN(spec.eos_id, TokenIdAt(file, "tokenizer.ggml.eos_token_id", tokens));
  SLUICE_ASSIGN_OR_RETURN(const int32_t eot,
                          TokenIdAt(file, "tokenizer.ggml.eot_token_id", tokens));
  SLUICE_ASSIGN_OR_RETURN(const int32_t eom,
                          TokenIdAt(file, "tokenizer.ggml.eom_token_id", tokens));
  const auto add_end = [&spec](int32_t id) {
    if (id >= 0 && std::find(spec.end_ids.begin(), spec.end_ids.end(), id) == spec.end_ids.end()) {
      spec.end_ids.push_back(id);
    }
  };
  add_end(spec.eos_id);
  add_end(eot);
  add_end(eom);
  for (size_t i = 0; i < tokens; ++i) {
    if (spec.types[i] == TokenType::kControl &&
        std::find(kEndTexts.begin(), kEndTexts.end(), spec.tokens[i]) != kEndTexts.end()) {
      // A hostile vocabulary may repeat a text; a few ends are enough.
      if (spec.end_ids.size() < 2 * kEndTexts.size()) add_end(static_cast<int32_t>(i));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TokenizerSpec> TokenizerSpecFromGguf(const GgufFile& file) {
  TokenizerSpec spec;
  SLUICE_ASSIGN_OR_RETURN(const auto model, file.FindString("tokenizer.ggml.model"));
  if (!model) return Bad(file, "tokenizer.ggml.model", "missing: the file has no tokenizer");
  spec.model = *model;
  SLUICE_ASSIGN_OR_RETURN(const auto pre, file.FindString("tokenizer.ggml.pre"));
  spec.pre = pre.value_or("default");

  constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
  SLUICE_ASSIGN_OR_RETURN(auto tokens, file.FindStrings(kTokens));
  if (!tokens || tokens->empty()) return Bad(file, kTokens, "missing or empty");
  if (tokens->size() > kTokensMax) {
    return Bad(
        file, kTokens,
        std::to_string(tokens->size()) + " tokens, the limit is " + std::to_string(kTokensMax));
  }
  spec.tokens = std::move(*tokens);
  SLUICE_ASSIGN_OR_RETURN(auto merges, file.FindStrings("tokenizer.ggml.merges"));
  if (merges) spec.merges = std::move(*merges);
  SLUICE_RETURN_IF_ERROR(ReadTypes(file, spec));
  SLUICE_RETURN_IF_ERROR(ReadSpecialIds(file, spec));

  SLUICE_ASSIGN_OR_RETURN(const auto add_bos, file.FindBool("tokenizer.ggml.add_bos_token"));
  SLUICE_ASSIGN_OR_RETURN(const auto add_eos, file.FindBool("tokenizer.ggml.add_eos_token"));
  const bool bos_by_default =
      std::find(kBosByDefault.begin(), kBosByDefault.end(), spec.pre) != kBosByDefault.end();
  spec.add_bos = spec.bos_id >= 0 && add_bos.value_or(bos_by_default);
  spec.add_eos = spec.eos_id >= 0 && add_eos.value_or(false);
  return spec;
}

absl::StatusOr<std::string_view> ChatTemplateFromGguf(const GgufFile& file) {
  SLUICE_ASSIGN_OR_RETURN(const auto text, file.FindString("tokenizer.chat_template"));
  return text.value_or(std::string_view());
}

}  // namespace sluice::engine
