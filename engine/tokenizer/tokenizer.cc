#include "engine/tokenizer/tokenizer.h"

#include <algorithm>
#include <atomic>

#include "engine/tokenizer/pretokenizer.h"
#include "engine/tokenizer/vocabulary.h"
#include "engine/tokenizer/word_cache.h"

namespace sluice::engine {
namespace {

// Positions in a text are kept in 32 bits while it is merged.
constexpr size_t kTextBytesMax = size_t{1} << 30;

uint32_t NextNumber() {
  static std::atomic<uint32_t> last{0};
  return ++last;
}

}  // namespace

struct Tokenizer::Impl {
  TokenizerSpec spec;
  std::unique_ptr<const Vocabulary> vocabulary;
  std::unique_ptr<const Pretokenizer> pretokenizer;
  uint32_t number = NextNumber();  // this tokenizer's in the word caches
};

namespace {

absl::Status TooMany(size_t tokens_max) {
  return OutOfRange("the text has more than " + std::to_string(tokens_max) + " tokens");
}

// Whether `text` is sure to have more than `tokens_max` tokens: none stands for more bytes than the
// longest does. Settles what is far too long before anything is done for it.
bool SurelyTooMany(const Vocabulary& vocabulary, std::string_view text, size_t tokens_max) {
  if (text.size() / vocabulary.longest() <= tokens_max) return false;
  size_t kept = 0;  // bytes that are not dropped
  for (char byte : text) kept += vocabulary.byte_id(static_cast<uint8_t>(byte)) >= 0;
  return kept / vocabulary.longest() > tokens_max;
}

// One Encode call: collects ids until the limit is passed.
class Encoding {
 public:
  Encoding(const Vocabulary& vocabulary, const Pretokenizer& pretokenizer, uint32_t number,
           size_t tokens_max)
      : vocabulary_(vocabulary),
        pretokenizer_(pretokenizer),
        number_(number),
        tokens_max_(tokens_max),
        cache_(WordCache::ForThisThread()) {}

  void Reserve(size_t text_bytes) { ids_.reserve(std::min(text_bytes / 3 + 16, tokens_max_)); }

  absl::Status AddText(std::string_view text) {
    SLUICE_RETURN_IF_ERROR(
        pretokenizer_.Split(text, [this](std::string_view piece) { return AddPiece(piece); }));
    return Check();
  }

  absl::Status AddId(int32_t id) {
    ids_.push_back(id);
    return Check();
  }

  std::vector<int32_t> Take() { return std::move(ids_); }

 private:
  absl::Status Check() const {
    return ids_.size() <= tokens_max_ ? absl::OkStatus() : TooMany(tokens_max_);
  }

  // False when the limit is passed.
  bool AddPiece(std::string_view piece) {
    if (piece.size() > WordCache::kWordBytesMax) {
      Merge(piece);
      return ids_.size() <= tokens_max_;
    }
    bool hit;
    WordCache::Entry* const entry = cache_.Find(piece, number_, &hit);
    if (hit) {
      const std::span<const int32_t> known = entry->value();
      ids_.insert(ids_.end(), known.begin(), known.end());
    } else {
      const size_t before = ids_.size();
      Merge(piece);
      const auto ids = std::span<const int32_t>(ids_).subspan(before);
      if (ids.size() <= WordCache::kIdsMax) WordCache::Fill(entry, piece, number_, ids);
    }
    return ids_.size() <= tokens_max_;
  }

  void Merge(std::string_view piece) {
    if (pretokenizer_.whole_piece_first()) {
      if (const std::optional<int32_t> id = vocabulary_.FindOrdinary(piece)) {
        ids_.push_back(*id);
        return;
      }
    }
    symbols_.clear();
    for (char byte : piece) {
      const int32_t id = vocabulary_.byte_id(static_cast<uint8_t>(byte));
      if (id >= 0) symbols_.push_back(id);
    }
    MergeSymbols(vocabulary_.merges(), symbols_, &ids_);
  }

  const Vocabulary& vocabulary_;
  const Pretokenizer& pretokenizer_;
  const uint32_t number_;
  const size_t tokens_max_;
  WordCache& cache_;
  std::vector<int32_t> ids_;
  std::vector<int32_t> symbols_;
};

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;

absl::StatusOr<std::unique_ptr<const Tokenizer>> Tokenizer::Create(TokenizerSpec spec) {
  auto impl = std::make_unique<Impl>();
  SLUICE_ASSIGN_OR_RETURN(impl->vocabulary, Vocabulary::Create(spec));
  SLUICE_ASSIGN_OR_RETURN(impl->pretokenizer, Pretokenizer::Create(spec.pre));
  impl->spec = std::move(spec);
  return std::unique_ptr<const Tokenizer>(new Tokenizer(std::move(impl)));
}

absl::StatusOr<std::vector<int32_t>> Tokenizer::Encode(std::string_view text, ControlTokens control,
                                                       size_t max_tokens) const {
  if (text.size() > kTextBytesMax) {
    return OutOfRange("the text's " + std::to_string(text.size()) +
                      " bytes are over the limit of " + std::to_string(kTextBytesMax));
  }
  if (SurelyTooMany(*impl_->vocabulary, text, max_tokens)) return TooMany(max_tokens);
  Encoding encoding(*impl_->vocabulary, *impl_->pretokenizer, impl_->number, max_tokens);
  encoding.Reserve(text.size());
  size_t at = 0;
  if (control == ControlTokens::kParse) {
    const ControlScanner& controls = impl_->vocabulary->controls();
    while (const std::optional<ControlScanner::Hit> hit = controls.Next(text, at)) {
      SLUICE_RETURN_IF_ERROR(encoding.AddText(text.substr(at, hit->begin - at)));
      SLUICE_RETURN_IF_ERROR(encoding.AddId(hit->id));
      at = hit->begin + hit->length;
    }
  }
  SLUICE_RETURN_IF_ERROR(encoding.AddText(text.substr(at)));
  return encoding.Take();
}

std::string_view Tokenizer::TokenBytes(int32_t id) const { return impl_->vocabulary->Bytes(id); }

bool Tokenizer::IsControl(int32_t id) const { return impl_->vocabulary->IsControl(id); }

std::string Tokenizer::Decode(std::span<const int32_t> ids, bool skip_control) const {
  std::string text;
  for (int32_t id : ids) {
    if (!skip_control || !IsControl(id)) text += TokenBytes(id);
  }
  return text;
}

std::optional<int32_t> Tokenizer::TokenId(std::string_view token_bytes) const {
  return impl_->vocabulary->Find(token_bytes);
}

int32_t Tokenizer::vocab_size() const { return impl_->vocabulary->size(); }

const TokenizerSpec& Tokenizer::spec() const { return impl_->spec; }

}  // namespace sluice::engine
