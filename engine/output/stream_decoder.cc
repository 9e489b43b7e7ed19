#include "engine/output/stream_decoder.h"

#include <algorithm>
#include <utility>

#include "engine/tokenizer/utf8.h"

namespace sluice::engine {

StreamDecoder::StreamDecoder(const Tokenizer* tokenizer, Options options)
    : tokenizer_(tokenizer), options_(std::move(options)), stops_(options_.stop_strings) {}

StreamDecoder::Piece StreamDecoder::Push(int32_t token) {
  if (stopped_) return {};
  searching_ = tokens_ >= options_.min_tokens;
  if (!searching_) ++tokens_;
  if (!options_.skip_control || !tokenizer_->IsControl(token)) {
    partial_ += tokenizer_->TokenBytes(token);
  }
  std::string text;
  partial_.erase(0, AppendReplacingInvalid(partial_, &text));
  if (!searching_) return {std::move(text), std::nullopt};
  return Advance(text);
}

StreamDecoder::Piece StreamDecoder::Finish() {
  if (stopped_) return {};
  Piece piece;
  if (!partial_.empty()) {
    partial_.clear();
    piece = searching_ ? Advance(kReplacementCharacter)
                       : Piece{std::string(kReplacementCharacter), std::nullopt};
  }
  if (stopped_) return piece;
  Piece rest;
  if (stops_.Finish()) {
    rest = End();
  } else {
    rest.text = std::exchange(held_, {});
  }
  stopped_ = true;
  return {piece.text + rest.text, std::move(rest.stop_matched)};
}

StreamDecoder::Piece StreamDecoder::Advance(std::string_view text) {
  held_ += text;
  searched_ += text.size();
  if (stops_.Push(text)) return End();
  size_t keep = 0;
  if (!stops_.empty()) {
    keep = stops_.Held();
    if (!partial_.empty() && keep > 0) {
      // What comes next is either a character that begins with these bytes or U+FFFD: text that
      // fits neither is free already.
      const size_t if_completed = stops_.HeldAfter(partial_);
      const size_t if_replaced = stops_.HeldAfter(kReplacementCharacter);
      keep = std::min(keep,
                      std::max(if_completed - std::min(if_completed, partial_.size()),
                               if_replaced - std::min(if_replaced, kReplacementCharacter.size())));
    }
  }
  Piece piece;
  piece.text = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return piece;
}

StreamDecoder::Piece StreamDecoder::End() {
  stopped_ = true;
  const StopMatcher::Match& match = stops_.match();
  const size_t held_begin = searched_ - held_.size();
  const size_t cut = options_.include_stop ? match.end : match.begin;
  Piece piece;
  piece.text = held_.substr(0, cut - held_begin);
  piece.stop_matched = options_.stop_strings[match.index];
  held_.clear();
  partial_.clear();
  return piece;
}

}  // namespace sluice::engine
