#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "engine/tokenizer/bpe.h"
#include "engine/tokenizer/control_scanner.h"
#include "engine/tokenizer/tokenizer.h"

namespace sluice::engine {

// Limits on what a model file may ask for, far above every published model.
inline constexpr size_t kVocabularyTokensMax = size_t{1} << 20;
inline constexpr size_t kVocabularyMergesMax = size_t{1} << 21;
inline constexpr size_t kVocabularyBytesMax = size_t{256} << 20;  // of all tokens together
inline constexpr size_t kTokenBytesMax = 65535;
inline constexpr size_t kControlNameBytesMax =
    1024;  // scanning a text costs this much a byte at worst

// A checked TokenizerSpec in the form that encoding and decoding use. Immutable after Create.
class Vocabulary {
 public:
  // InvalidArgument, naming the key, the index and the value. All keys but the pre-tokenizer's are
  // checked.
  static absl::StatusOr<std::unique_ptr<const Vocabulary>> Create(const TokenizerSpec& spec);

  int32_t size() const { return static_cast<int32_t>(ends_.size()) - 1; }
  std::string_view Bytes(int32_t id) const {  // empty for ids outside
    if (id < 0 || id >= size()) return {};
    return std::string_view(bytes_).substr(ends_[id], ends_[id + 1] - ends_[id]);
  }
  bool IsControl(int32_t id) const { return id >= 0 && id < size() && is_control_[id]; }
  // The token of these bytes. Of several (a control token named like a word) the ordinary one.
  std::optional<int32_t> Find(std::string_view bytes) const;
  // The ordinary token of these bytes: what text may become.
  std::optional<int32_t> FindOrdinary(std::string_view bytes) const;

  int32_t byte_id(uint8_t byte) const { return byte_ids_[byte]; }  // -1: the byte has no token
  size_t longest() const { return longest_; }                      // bytes in the longest token
  const MergeTable& merges() const { return merges_; }
  const ControlScanner& controls() const { return controls_; }

 private:
  // The spec's tokens by their own text. Views into the spec: used while creating only.
  using TokenIndex = absl::flat_hash_map<std::string_view, int32_t>;

  Vocabulary() = default;
  absl::Status AddTokens(const TokenizerSpec& spec, TokenIndex* index);
  absl::Status AddBytes(const TokenIndex& index);
  absl::Status AddMerges(const TokenizerSpec& spec, const TokenIndex& index);
  void IndexBytes();

  bool IsOrdinary(int32_t id) const { return is_ordinary_[id]; }

  std::string bytes_;           // of all tokens, one after another
  std::vector<uint32_t> ends_;  // token i is bytes_[ends_[i], ends_[i + 1])
  std::vector<bool> is_control_;
  std::vector<bool> is_ordinary_;  // neither control nor user-defined
  std::array<int32_t, 256> byte_ids_{};
  size_t longest_ = 0;
  absl::flat_hash_map<std::string_view, int32_t> by_bytes_;  // views into bytes_
  MergeTable merges_;
  ControlScanner controls_;
};

}  // namespace sluice::engine
