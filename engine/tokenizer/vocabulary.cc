#include "engine/tokenizer/vocabulary.h"

#include "engine/tokenizer/byte_alphabet.h"
#include "engine/tokenizer/utf8.h"

namespace sluice::engine {
namespace {

constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens";
constexpr std::string_view kTypesKey = "tokenizer.ggml.token_type";
constexpr std::string_view kMergesKey = "tokenizer.ggml.merges";

std::string Element(std::string_view key, size_t index) {
  return std::string(key) + "[" + std::to_string(index) + "]";
}

// A value from the file for an error text: short, and valid UTF-8.
std::string Quote(std::string_view value) {
  constexpr size_t kShown = 64;
  std::string quoted(1, '\'');
  quoted += ReplaceInvalidUtf8(value.substr(0, kShown));
  quoted += '\'';
  if (value.size() > kShown) quoted += "... (" + std::to_string(value.size()) + " bytes)";
  return quoted;
}

absl::Status CheckCount(std::string_view key, size_t count, size_t limit) {
  if (count <= limit) return absl::OkStatus();
  return InvalidArgument(std::string(key) + ": " + std::to_string(count) +
                         " elements are over the limit of " + std::to_string(limit));
}

absl::Status CheckId(std::string_view key, int32_t id, size_t tokens) {
  if (id >= 0 && static_cast<size_t>(id) < tokens) return absl::OkStatus();
  return InvalidArgument(std::string(key) + ": the id " + std::to_string(id) +
                         " is not in the vocabulary of " + std::to_string(tokens));
}

absl::Status CheckShape(const TokenizerSpec& spec) {
  if (spec.model != "gpt2") {
    return InvalidArgument("tokenizer.ggml.model: the kind " + Quote(spec.model) +
                           " is not known; known is: gpt2 (byte-level BPE)");
  }
  if (spec.tokens.empty()) return InvalidArgument(std::string(kTokensKey) + ": no tokens");
  SLUICE_RETURN_IF_ERROR(CheckCount(kTokensKey, spec.tokens.size(), kVocabularyTokensMax));
  SLUICE_RETURN_IF_ERROR(CheckCount(kMergesKey, spec.merges.size(), kVocabularyMergesMax));
  if (spec.types.size() != spec.tokens.size()) {
    return InvalidArgument(std::string(kTypesKey) + ": " + std::to_string(spec.types.size()) +
                           " elements for " + std::to_string(spec.tokens.size()) + " tokens");
  }
  for (size_t i = 0; i < spec.types.size(); ++i) {
    const auto type = static_cast<int32_t>(spec.types[i]);
    if (type < 0 || type > static_cast<int32_t>(TokenType::kByte)) {
      return InvalidArgument(Element(kTypesKey, i) + ": " + std::to_string(type) +
                             " is not a token type (0 to 6)");
    }
  }
  const size_t n = spec.tokens.size();
  if (spec.bos_id != -1) {
    SLUICE_RETURN_IF_ERROR(CheckId("tokenizer.ggml.bos_token_id", spec.bos_id, n));
  } else if (spec.add_bos) {
    return InvalidArgument("tokenizer.ggml.add_bos_token: there is no bos_token_id");
  }
  if (spec.eos_id != -1) {
    SLUICE_RETURN_IF_ERROR(CheckId("tokenizer.ggml.eos_token_id", spec.eos_id, n));
  } else if (spec.add_eos) {
    return InvalidArgument("tokenizer.ggml.add_eos_token: there is no eos_token_id");
  }
  for (int32_t id : spec.end_ids) {
    SLUICE_RETURN_IF_ERROR(
        CheckId("tokenizer.ggml.eos_token_id, eot_token_id or eom_token_id", id, n));
  }
  return absl::OkStatus();
}

bool NamedAsIs(TokenType type) {
  return type == TokenType::kControl || type == TokenType::kUnknown ||
         type == TokenType::kUserDefined;
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Vocabulary>> Vocabulary::Create(const TokenizerSpec& spec) {
  SLUICE_RETURN_IF_ERROR(CheckShape(spec));
  std::unique_ptr<Vocabulary> vocabulary(new Vocabulary());
  TokenIndex index;
  SLUICE_RETURN_IF_ERROR(vocabulary->AddTokens(spec, &index));
  vocabulary->IndexBytes();
  SLUICE_RETURN_IF_ERROR(vocabulary->AddBytes(index));
  SLUICE_RETURN_IF_ERROR(vocabulary->AddMerges(spec, index));
  return std::unique_ptr<const Vocabulary>(std::move(vocabulary));
}

absl::Status Vocabulary::AddTokens(const TokenizerSpec& spec, TokenIndex* index) {
  index->reserve(spec.tokens.size());
  ends_.reserve(spec.tokens.size() + 1);
  ends_.push_back(0);
  for (size_t i = 0; i < spec.tokens.size(); ++i) {
    const std::string& token = spec.tokens[i];
    const TokenType type = spec.types[i];
    const auto id = static_cast<int32_t>(i);
    const size_t limit = NamedAsIs(type) ? kControlNameBytesMax : kTokenBytesMax;
    if (token.size() > limit) {
      return InvalidArgument(Element(kTokensKey, i) + ": " + Quote(token) +
                             " is over the limit of " + std::to_string(limit) + " bytes");
    }
    if (const auto [known, added] = index->try_emplace(token, id); !added) {
      return InvalidArgument(Element(kTokensKey, i) + ": " + Quote(token) + " is " +
                             Element(kTokensKey, known->second) + " already");
    }
    is_control_.push_back(type == TokenType::kControl || type == TokenType::kUnknown);
    // A name that is not in the alphabet stands for itself; no merge of bytes can give it.
    std::optional<std::string> bytes;
    if (!NamedAsIs(type)) bytes = SymbolsToBytes(token);
    is_ordinary_.push_back(bytes.has_value());
    bytes_ += bytes ? *bytes : token;
    if (bytes_.size() > kVocabularyBytesMax) {
      return InvalidArgument(Element(kTokensKey, i) + ": the tokens so far are over the limit of " +
                             std::to_string(kVocabularyBytesMax) + " bytes");
    }
    longest_ = std::max(longest_, bytes_.size() - ends_.back());
    ends_.push_back(static_cast<uint32_t>(bytes_.size()));
    if (NamedAsIs(type) && !token.empty()) controls_.Add(token, id);
  }
  return absl::OkStatus();
}

void Vocabulary::IndexBytes() {
  by_bytes_.reserve(static_cast<size_t>(size()));
  for (int32_t id = 0; id < size(); ++id) {
    const auto [known, added] = by_bytes_.try_emplace(Bytes(id), id);
    if (!added && IsOrdinary(id) && !IsOrdinary(known->second)) known->second = id;
  }
}

absl::Status Vocabulary::AddBytes(const TokenIndex& index) {
  int found = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const auto token = index.find(std::string_view(ByteToSymbol(static_cast<uint8_t>(byte))));
    const bool usable = token != index.end() && IsOrdinary(token->second);
    byte_ids_[byte] = usable ? token->second : -1;
    found += usable;
  }
  if (found == 0) return InvalidArgument(std::string(kTokensKey) + ": no token is a single byte");
  return absl::OkStatus();
}

absl::Status Vocabulary::AddMerges(const TokenizerSpec& spec, const TokenIndex& index) {
  merges_ = MergeTable(spec.merges.size());
  std::string joined;
  for (size_t i = 0; i < spec.merges.size(); ++i) {
    const std::string_view merge = spec.merges[i];
    const size_t space = merge.find(' ');
    if (space == 0 || space == std::string_view::npos || space + 1 == merge.size() ||
        merge.find(' ', space + 1) != std::string_view::npos) {
      return InvalidArgument(Element(kMergesKey, i) + ": " + Quote(merge) +
                             " is not two tokens with a space between");
    }
    const std::string_view left = merge.substr(0, space);
    const std::string_view right = merge.substr(space + 1);
    joined.assign(left).append(right);
    const auto left_id = index.find(left);
    const auto right_id = index.find(right);
    const auto result = index.find(std::string_view(joined));
    for (const auto& [place, name] : {std::pair(left_id, left), std::pair(right_id, right),
                                      std::pair(result, std::string_view(joined))}) {
      if (place == index.end()) {
        return InvalidArgument(Element(kMergesKey, i) + ": " + Quote(name) + " is not a token");
      }
    }
    // Text can't spell a control token: that takes ControlTokens::kParse, so such a merge never
    // applies.
    if (!IsOrdinary(result->second)) continue;
    merges_.Add(left_id->second, right_id->second, {static_cast<uint32_t>(i), result->second});
  }
  return absl::OkStatus();
}

std::optional<int32_t> Vocabulary::Find(std::string_view bytes) const {
  const auto place = by_bytes_.find(bytes);
  if (place == by_bytes_.end()) return std::nullopt;
  return place->second;
}

std::optional<int32_t> Vocabulary::FindOrdinary(std::string_view bytes) const {
  const std::optional<int32_t> id = Find(bytes);
  return id && IsOrdinary(*id) ? id : std::nullopt;
}

}  // namespace sluice::engine
