#include "engine/template/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "engine/template/value/text.h"

namespace sluice::engine::jinja {
namespace {

bool IsAsciiDigit(char c) { return c >= '0' && c <= '9'; }

int DigitValue(char c) {
  if (IsAsciiDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  absl::Status Run() {
    while (at_ < source_.size()) {
      SLUICE_RETURN_IF_ERROR(LexText());
    }
    Emit(TokenType::kEnd, at_);
    return absl::OkStatus();
  }

  std::vector<Token> TakeTokens() { return std::move(tokens_); }
  uint32_t error_offset() const { return static_cast<uint32_t>(error_offset_); }

 private:
  // ---- literal text and the starts of tags

  absl::Status LexText() {
    const size_t begin = at_;
    size_t tag = begin;
    while (true) {
      tag = source_.find('{', tag);
      if (tag == std::string_view::npos || tag + 1 >= source_.size()) {
        EmitData(begin, source_.substr(begin));
        at_ = source_.size();
        return absl::OkStatus();
      }
      const char next = source_[tag + 1];
      if (next == '%' || next == '{' || next == '#') break;
      ++tag;
    }
    const char kind = source_[tag + 1];
    const size_t sign_at = tag + 2;
    size_t raw_body = 0;
    const bool raw = kind == '%' && MatchRawBegin(sign_at, &raw_body);
    const char sign = SignAt(sign_at);
    EmitData(begin, BeforeTag(source_.substr(begin, tag - begin), sign, kind == '{'));
    at_ = sign_at + (sign ? 1 : 0);
    if (raw) {
      at_ = raw_body;
      return LexRaw(tag);
    }
    if (kind == '#') return SkipComment(tag);
    Emit(kind == '%' ? TokenType::kBlockBegin : TokenType::kVariableBegin, tag);
    return LexTag(kind == '%', tag);
  }

  char SignAt(size_t at) const {
    return at < source_.size() && (source_[at] == '-' || source_[at] == '+') ? source_[at] : 0;
  }

  // What remains of the text in front of a tag.
  std::string_view BeforeTag(std::string_view text, char sign, bool variable) const {
    if (sign == '-') return Strip(text, nullptr, StripSides::kRight);
    if (sign == '+' || variable) return text;
    const size_t newline = text.rfind('\n');
    const size_t line = newline == std::string_view::npos ? 0 : newline + 1;
    if (line == 0 && !line_starting_) return text;
    if (Strip(text.substr(line), nullptr, StripSides::kLeft).empty()) return text.substr(0, line);
    return text;
  }

  size_t SkipSpace(size_t at) const {
    while (at < source_.size()) {
      size_t next = at;
      if (!IsSpace(NextCodePoint(source_, &next))) break;
      at = next;
    }
    return at;
  }

  bool StartsWith(size_t at, std::string_view prefix) const {
    return source_.substr(std::min(at, source_.size()), prefix.size()) == prefix;
  }

  // `{% raw %}` behind its "{%"; *body is where the raw text begins.
  bool MatchRawBegin(size_t at, size_t* body) const {
    at = SkipSpace(at + (SignAt(at) ? 1 : 0));
    if (!StartsWith(at, "raw")) return false;
    at = SkipSpace(at + 3);
    if (StartsWith(at, "-%}")) {
      *body = SkipSpace(at + 3);
      return true;
    }
    *body = at + 2;
    return StartsWith(at, "%}");
  }

  absl::Status LexRaw(size_t tag) {
    SetLineStarting();
    const size_t begin = at_;
    for (size_t end = source_.find("{%", begin); end != std::string_view::npos;
         end = source_.find("{%", end + 1)) {
      const char sign = SignAt(end + 2);
      size_t at = SkipSpace(end + 2 + (sign ? 1 : 0));
      if (!StartsWith(at, "endraw")) continue;
      at = SkipSpace(at + 6);
      if (!MatchTagEnd(at, "%}", true, &at)) continue;
      EmitData(begin, BeforeTag(source_.substr(begin, end - begin), sign, false));
      at_ = at;
      SetLineStarting();
      return absl::OkStatus();
    }
    return Fail(tag, "expected {% endraw %} for this {% raw %}");
  }

  absl::Status SkipComment(size_t tag) {
    const size_t end = source_.find("#}", at_);
    if (end == std::string_view::npos) return Fail(tag, "expected #} at the end of this comment");
    const char sign = end > at_ ? SignAt(end - 1) : 0;
    at_ = end + 2;
    if (sign == '-') {
      at_ = SkipSpace(at_);
    } else if (sign != '+' && StartsWith(at_, "\n")) {
      ++at_;
    }
    SetLineStarting();
    return absl::OkStatus();
  }

  // Matches the end of a tag with its white space control; *after is behind what it swallows.
  bool MatchTagEnd(size_t at, std::string_view end, bool block, size_t* after) const {
    if (at < source_.size() && source_[at] == '-' && StartsWith(at + 1, end)) {
      *after = SkipSpace(at + 1 + end.size());
      return true;
    }
    if (block && at < source_.size() && source_[at] == '+' && StartsWith(at + 1, end)) {
      *after = at + 1 + end.size();
      return true;
    }
    if (!StartsWith(at, end)) return false;
    *after = at + end.size();
    if (block && StartsWith(*after, "\n")) ++*after;
    return true;
  }

  void SetLineStarting() { line_starting_ = at_ > 0 && source_[at_ - 1] == '\n'; }

  // ---- the inside of a tag

  absl::Status LexTag(bool block, size_t tag) {
    const std::string_view end = block ? "%}" : "}}";
    brackets_.clear();
    while (at_ < source_.size()) {
      size_t after;
      if (brackets_.empty() && MatchTagEnd(at_, end, block, &after)) {
        Emit(block ? TokenType::kBlockEnd : TokenType::kVariableEnd, at_);
        at_ = after;
        SetLineStarting();
        return absl::OkStatus();
      }
      const size_t next = SkipSpace(at_);
      if (next != at_) {
        at_ = next;
        continue;
      }
      SLUICE_RETURN_IF_ERROR(LexOne());
    }
    return Fail(tag, "expected " + std::string(end) + " at the end of this tag");
  }

  absl::Status LexOne() {
    const char c = source_[at_];
    if (IsAsciiDigit(c)) return LexNumber();
    if (c == '"' || c == '\'') return LexString(c);
    size_t next = at_;
    const char32_t code_point = NextCodePoint(source_, &next);
    if (IsWord(code_point)) return LexName();
    return LexOperator();
  }

  absl::Status LexName() {
    const size_t begin = at_;
    while (at_ < source_.size()) {
      size_t next = at_;
      if (!IsWord(NextCodePoint(source_, &next))) break;
      at_ = next;
    }
    Emit(TokenType::kName, begin).text = source_.substr(begin, at_ - begin);
    return absl::OkStatus();
  }

  absl::Status LexOperator() {
    static constexpr std::array<std::string_view, 6> kTwo = {"//", "**", "==", "!=", ">=", "<="};
    static constexpr std::string_view kOne = "+-/*%~[](){}=><.:|,;";
    const size_t begin = at_;
    const std::string_view two = source_.substr(at_, 2);
    if (std::find(kTwo.begin(), kTwo.end(), two) != kTwo.end()) {
      at_ += 2;
      Emit(TokenType::kOperator, begin).text = two;
      return absl::OkStatus();
    }
    const char c = source_[at_];
    if (kOne.find(c) == std::string_view::npos) {
      size_t next = at_;
      NextCodePoint(source_, &next);
      return Fail(at_,
                  "unexpected character '" + std::string(source_.substr(at_, next - at_)) + "'");
    }
    if (c == '(' || c == '[' || c == '{') {
      brackets_.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    } else if (c == ')' || c == ']' || c == '}') {
      if (brackets_.empty()) return Fail(at_, std::string("unexpected '") + c + "'");
      if (brackets_.back() != c) {
        return Fail(at_,
                    std::string("unexpected '") + c + "', expected '" + brackets_.back() + "'");
      }
      brackets_.pop_back();
    }
    ++at_;
    Emit(TokenType::kOperator, begin).text = std::string(1, c);
    return absl::OkStatus();
  }

  // Digits with single underscores between them, from `at`; returns the end, or `at` when there is
  // none.
  size_t MatchDigits(size_t at) const {
    size_t end = at;
    while (end < source_.size()) {
      const size_t digit = end > at && source_[end] == '_' ? end + 1 : end;
      if (digit >= source_.size() || !IsAsciiDigit(source_[digit])) break;
      end = digit + 1;
    }
    return end;
  }

  // The end of a float at at_, or 0 when there is an integer.
  size_t MatchFloat() const {
    if (at_ > 0 && source_[at_ - 1] == '.') return 0;
    const size_t whole = MatchDigits(at_);
    size_t end = whole;
    if (StartsWith(end, ".") && MatchDigits(end + 1) > end + 1) end = MatchDigits(end + 1);
    if (StartsWith(end, "e") || StartsWith(end, "E")) {
      const size_t digits = end + 1 + (SignAt(end + 1) ? 1 : 0);
      if (MatchDigits(digits) > digits) end = MatchDigits(digits);
    }
    return end > whole ? end : 0;
  }

  std::string WithoutUnderscores(size_t begin, size_t end) const {
    std::string text(source_.substr(begin, end - begin));
    text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
    return text;
  }

  absl::Status LexNumber() {
    const size_t begin = at_;
    if (const size_t end = MatchFloat()) {
      const std::string text = WithoutUnderscores(begin, end);
      at_ = end;
      Token& token = Emit(TokenType::kFloat, begin);
      token.real = std::strtod(text.c_str(), nullptr);
      return absl::OkStatus();
    }
    int base = 10;
    size_t digits = begin;
    if (source_[begin] == '0' && begin + 1 < source_.size()) {
      const char marker = static_cast<char>(source_[begin + 1] | 0x20);
      const int marked = marker == 'b' ? 2 : marker == 'o' ? 8 : marker == 'x' ? 16 : 10;
      const size_t first = begin + 2 + (StartsWith(begin + 2, "_") ? 1 : 0);
      if (marked != 10 && first < source_.size() && DigitValue(source_[first]) < marked) {
        base = marked;
        digits = begin + 2;
      }
    }
    size_t end = digits;
    while (end < source_.size()) {
      const size_t digit = source_[end] == '_' ? end + 1 : end;
      if (digit >= source_.size() || DigitValue(source_[digit]) >= base) break;
      // Decimal zero is written with zeros only: 012 reads as 0 and 12, which no rule accepts.
      if (base == 10 && source_[begin] == '0' && source_[digit] != '0') break;
      end = digit + 1;
    }
    const std::string text = WithoutUnderscores(digits, end);
    int64_t value = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (result.ec != std::errc())
      return Fail(begin, "the integer " + text + " does not fit 64 bits");
    at_ = end;
    Emit(TokenType::kInteger, begin).integer = value;
    return absl::OkStatus();
  }

  absl::Status LexString(char quote) {
    const size_t begin = at_++;
    std::string text;
    while (at_ < source_.size() && source_[at_] != quote) {
      if (source_[at_] == '\\') {
        SLUICE_RETURN_IF_ERROR(LexEscape(&text));
      } else {
        text.push_back(source_[at_++]);
      }
    }
    if (at_ >= source_.size()) return Fail(begin, "expected the end of this string");
    ++at_;
    Emit(TokenType::kString, begin).text = std::move(text);
    return absl::OkStatus();
  }

  // A backslash and what follows, as Python's string literals read them.
  absl::Status LexEscape(std::string* text) {
    const size_t begin = at_++;
    if (at_ >= source_.size()) return absl::OkStatus();
    const char c = source_[at_++];
    static constexpr std::string_view kNames = "\\'\"abfnrtv", kBytes = "\\'\"\a\b\f\n\r\t\v";
    if (const size_t named = kNames.find(c); named != std::string_view::npos) {
      text->push_back(kBytes[named]);
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const size_t count = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      char32_t value = 0;
      for (size_t i = 0; i < count; ++i, ++at_) {
        const int digit = at_ < source_.size() ? DigitValue(source_[at_]) : 99;
        if (digit > 15) return Fail(begin, "truncated \\" + std::string(1, c) + " escape");
        value = value * 16 + static_cast<char32_t>(digit);
      }
      if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) {
        return Fail(begin, "the escape names no character");
      }
      AppendUtf8(value, text);
    } else if (c >= '0' && c <= '7') {
      char32_t value = static_cast<char32_t>(c - '0');
      for (int i = 0; i < 2 && at_ < source_.size() && source_[at_] >= '0' && source_[at_] <= '7';
           ++i) {
        value = value * 8 + static_cast<char32_t>(source_[at_++] - '0');
      }
      AppendUtf8(value, text);
    } else if (c == 'N') {
      return Fail(begin, "\\N{name} escapes are not supported");
    } else if (c != '\n') {
      text->push_back('\\');
      --at_;
      const size_t start = at_;
      NextCodePoint(source_, &at_);
      text->append(source_.substr(start, at_ - start));
    }
    return absl::OkStatus();
  }

  // ---- output

  Token& Emit(TokenType type, size_t offset) {
    Token& token = tokens_.emplace_back();
    token.type = type;
    token.offset = static_cast<uint32_t>(offset);
    return token;
  }

  void EmitData(size_t offset, std::string_view text) {
    if (!text.empty()) Emit(TokenType::kData, offset).text = text;
  }

  absl::Status Fail(size_t offset, std::string_view message) {
    error_offset_ = offset;
    return InvalidArgument(message);
  }

  std::string_view source_;
  size_t at_ = 0;
  size_t error_offset_ = 0;
  bool line_starting_ = true;  // the last tag's end swallowed a newline, or nothing was read yet
  std::string brackets_;       // closing brackets that the current tag still needs
  std::vector<Token> tokens_;
};

}  // namespace

std::string NormalizeSource(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out.push_back(source[i]);
      continue;
    }
    out.push_back('\n');
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

std::string DescribePosition(std::string_view source, uint32_t offset) {
  const std::string_view before = source.substr(0, std::min<size_t>(offset, source.size()));
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t newline = before.rfind('\n');
  const std::string_view in_line =
      before.substr(newline == std::string_view::npos ? 0 : newline + 1);
  return "line " + std::to_string(line) + ", column " + std::to_string(CodePointCount(in_line) + 1);
}

absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source, uint32_t* error_offset) {
  Lexer lexer(source);
  absl::Status status = lexer.Run();
  *error_offset = lexer.error_offset();
  if (!status.ok()) return status;
  return lexer.TakeTokens();
}

}  // namespace sluice::engine::jinja
