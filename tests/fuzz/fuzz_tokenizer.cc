// Text to tokens and back: encoding loses nothing, limits hold, and the stream decoder gives the
// same text as decoding at once, stop strings cut by their definition.
//
// Input: flags, seed, count of stop strings, the stop strings (each ended by a zero byte), the
// text.

#include <array>
#include <memory>
#include <string>
#include <utility>

#include "engine/output/stream_decoder.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/utf8.h"
#include "tests/engine/output/by_definition.h"
#include "tests/engine/tokenizer/small_spec.h"
#include "tests/fuzz/input.h"

namespace sluice::testing {
namespace {

using engine::ControlTokens;
using engine::StreamDecoder;
using engine::Tokenizer;

constexpr std::array<const char*, 8> kPreTokenizers{"gpt-2",  "default", "llama-bpe", "qwen2",
                                                    "smollm", "tekken",  "gpt-4o",    "command-r"};

std::unique_ptr<const Tokenizer> Make(const char* pre) {
  SmallSpec small(pre);
  for (const auto& [left, right] : {std::pair("a", "b"),
                                    {"b", "c"},
                                    {"ab", "c"},
                                    {"a", "a"},
                                    {"aa", "aa"},
                                    {" ", " "},
                                    {" ", "a"},
                                    {"\n", "\n"},
                                    {"1", "2"},
                                    {"\xC3", "\xA9"},
                                    {"\xE2", "\x82"},
                                    {"\xE2\x82", "\xAC"},
                                    {"'", "s"},
                                    {"t", "h"},
                                    {"th", "e"},
                                    {" ", "the"}}) {
    small.AddMerge(left, right);
  }
  small.AddWord("hello world");
  for (const char* name : {"<|im_start|>", "<|im_end|>", "<s>", "<|", "<|im"}) small.AddNamed(name);
  small.AddNamed("<tool>", engine::TokenType::kUserDefined);
  return MakeTokenizer(std::move(small.spec));
}

const Tokenizer& TokenizerOf(uint8_t flags) {
  static std::array<std::unique_ptr<const Tokenizer>, kPreTokenizers.size()> made;
  auto& one = made[flags % made.size()];
  if (!one) one = Make(kPreTokenizers[flags % made.size()]);
  return *one;
}

void RoundTrip(const Tokenizer& tokenizer, std::string_view text, ControlTokens control) {
  const auto ids = tokenizer.Encode(text, control);
  Require(ids.ok(), "without a limit any text has tokens");
  Require(tokenizer.Decode(*ids, false) == text, "decoding gives back the text", text);
  for (const int32_t id : *ids) {
    Require(id >= 0 && id < tokenizer.vocab_size(), "ids are in the vocabulary");
    Require(control == ControlTokens::kParse || !tokenizer.IsControl(id),
            "plain text has no control tokens", text);
  }
  Require(tokenizer.Encode(text, control, ids->size()).ok(), "a limit that is met is no error");
  if (!ids->empty()) {
    Require(absl::IsOutOfRange(tokenizer.Encode(text, control, ids->size() - 1).status()),
            "one token too many is OutOfRange", text);
  }
}

// Valid text stays as it is whatever the tokens that carry it; stop strings end it.
void Stream(const Tokenizer& tokenizer, std::span<const int32_t> ids,
            StreamDecoder::Options options) {
  const bool include = options.include_stop;
  const std::vector<std::string> stops = options.stop_strings;
  StreamDecoder whole(&tokenizer, {{}, false, options.skip_control, 0});
  StreamDecoder stopping(&tokenizer, std::move(options));
  std::string all, until;
  std::optional<std::string> matched;
  const auto take = [&](StreamDecoder::Piece piece) {
    Require(engine::IsValidUtf8(piece.text), "every piece is valid UTF-8", piece.text);
    Require(!matched || (piece.text.empty() && !piece.stop_matched), "nothing follows a stop");
    until += piece.text;
    if (piece.stop_matched) matched = piece.stop_matched;
  };
  for (const int32_t id : ids) {
    all += whole.Push(id).text;
    take(stopping.Push(id));
  }
  all += whole.Finish().text;
  take(stopping.Finish());
  Require(engine::IsValidUtf8(all), "streamed text is valid UTF-8", all);
  const auto stop = FirstStop(stops, all);
  Require(stop.has_value() == matched.has_value(), "a stop string is found when there is one", all);
  const size_t end = !stop ? all.size() : include ? stop->end : stop->begin;
  Require(until == all.substr(0, end), "the text ends where the stop string says", all);
  Require(!stop || *matched == stop->stop, "the stop string is the right one", all);
}

}  // namespace
}  // namespace sluice::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice::testing;
  FuzzInput input(data, size);
  const uint8_t flags = input.Byte();
  const uint8_t seed = input.Byte();
  StreamDecoder::Options options;
  options.include_stop = (flags & 0x10) != 0;
  options.skip_control = (flags & 0x20) != 0;
  for (int stops = input.Byte() % 4; stops > 0; --stops) {
    std::string stop(input.Line());
    if (!stop.empty() && sluice::engine::IsValidUtf8(stop)) options.stop_strings.push_back(stop);
  }
  const std::string text(input.Rest());
  const Tokenizer& tokenizer = TokenizerOf(flags);
  RoundTrip(tokenizer, text, ControlTokens::kPlainText);
  RoundTrip(tokenizer, text, ControlTokens::kParse);
  Stream(tokenizer, *tokenizer.Encode(text, ControlTokens::kParse), options);
  // Any ids at all, some of them outside the vocabulary.
  std::vector<int32_t> ids;
  for (const char byte : text) {
    ids.push_back(static_cast<int32_t>(static_cast<uint8_t>(byte) + 1u) *
                      (seed % 3 == 0 ? 1 : static_cast<int32_t>(seed)) %
                      (tokenizer.vocab_size() + 3) -
                  1);
  }
  (void)tokenizer.Decode(ids, options.skip_control);
  Stream(tokenizer, ids, options);
  return 0;
}
