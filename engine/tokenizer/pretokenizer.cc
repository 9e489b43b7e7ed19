#include "engine/tokenizer/pretokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <vector>

#include "engine/tokenizer/utf8.h"

namespace sluice::engine {
namespace {

// The expressions are written with \s inside brackets only, and \s is replaced by this: Unicode's
// White_Space, which is what the tokenizers' regex library means by it. PCRE2's own \s has U+180E
// too.
constexpr std::string_view kWhiteSpace =
    R"(\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

// Words with a blank before, numbers, other marks, blanks (the last one of a run goes to the next
// word).
constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|[\s]+(?![^\s])|[\s]+)";

// Each numeric character alone, then GPT-2's expression on what lies between, in one expression:
// without numbers to match, and with a numeric character ending the text for the lookahead.
constexpr std::string_view kGpt2SingleDigits =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|[\s]+(?![^\s\p{N}])|[\s]+)";

constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|[\s]*[\r\n]+|[\s]+(?![^\s])|[\s]+)";

constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|[\s]*[\r\n]+|[\s]+(?![^\s])|[\s]+)";

// Words are cut before an upper-case letter that follows a lower-case one.
constexpr std::string_view kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|[\s]*[\r\n]+|[\s]+(?![^\s])|[\s]+)";

constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|[\s]*[\r\n]+|[\s]+(?![^\s])|[\s]+)";

constexpr size_t kStagesMax = 4;

struct Kind {
  std::string_view name;
  bool whole_piece_first;
  std::array<std::string_view, kStagesMax> expressions;  // empty from the first unused one on
};

constexpr Kind kKinds[] = {
    {"command-r", false, {kGpt2SingleDigits}},
    {"default",
     false,
     {R"([\p{P}$+<=>^~|]+)",
      R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|[\s]+(?![^\s]))", R"(\p{N}+)",
      R"([0-9][0-9][0-9])"}},
    {"gpt-2", false, {kGpt2}},
    {"gpt-4o", false, {kGpt4o}},
    {"llama-bpe", true, {kLlama3}},
    {"llama-v3", true, {kLlama3}},
    {"llama3", true, {kLlama3}},
    {"qwen2", false, {kQwen2}},
    {"refact", false, {kGpt2SingleDigits}},
    {"smollm", false, {kGpt2SingleDigits}},
    {"starcoder", false, {kGpt2SingleDigits}},
    {"tekken", true, {kTekken}},
};

const Kind* FindKind(std::string_view name) {
  for (const Kind& kind : kKinds) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

std::string ExpandWhiteSpace(std::string_view expression) {
  std::string out;
  for (size_t at = 0; at < expression.size();) {
    if (expression.substr(at, 2) == "\\s") {
      out += kWhiteSpace;
      at += 2;
    } else {
      out += expression[at++];
    }
  }
  return out;
}

// What a match writes to; one per thread, since a compiled expression is shared and this cannot be.
class MatchState {
 public:
  MatchState()
      : data_(pcre2_match_data_create(1, nullptr)),
        context_(pcre2_match_context_create(nullptr)),
        stack_(pcre2_jit_stack_create(32 * 1024, 1024 * 1024, nullptr)) {
    if (!ok()) return;
    pcre2_jit_stack_assign(context_, nullptr, stack_);
    // The expressions take linear time, so what these guard against does not happen; a long run may
    // need more than the defaults allow.
    pcre2_set_match_limit(context_, UINT32_MAX);
    pcre2_set_heap_limit(context_, UINT32_MAX);
  }
  ~MatchState() {
    pcre2_match_data_free(data_);
    pcre2_match_context_free(context_);
    pcre2_jit_stack_free(stack_);
  }
  MatchState(const MatchState&) = delete;
  MatchState& operator=(const MatchState&) = delete;

  bool ok() const { return data_ != nullptr && context_ != nullptr && stack_ != nullptr; }
  pcre2_match_data* data() const { return data_; }
  pcre2_match_context* context() const { return context_; }

  static MatchState& ForThisThread() {
    thread_local MatchState state;
    return state;
  }

 private:
  pcre2_match_data* data_;
  pcre2_match_context* context_;
  pcre2_jit_stack* stack_;
};

// One compiled expression.
class Expression {
 public:
  static absl::StatusOr<Expression> Compile(std::string_view text, bool try_jit) {
    const std::string pattern = ExpandWhiteSpace(text);
    int error = 0;
    PCRE2_SIZE offset = 0;
    pcre2_code* code =
        pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                      PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr);
    if (code == nullptr) {
      return Internal("PCRE2 error " + std::to_string(error) + " at offset " +
                      std::to_string(offset) + " of the pre-tokenizer expression " + pattern);
    }
    const bool jit = try_jit && pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0;
    return Expression(code, jit);
  }
  Expression(Expression&& other) noexcept : code_(other.code_), jit_(other.jit_) {
    other.code_ = nullptr;
  }
  Expression& operator=(Expression&&) = delete;
  ~Expression() { pcre2_code_free(code_); }

  // The first match at or after `from`, as the two offsets in state's ovector: > 0 found, or
  // PCRE2's code. `text` must be valid UTF-8: neither call checks it, for a check a match would
  // make the whole quadratic.
  int Match(std::string_view text, size_t from, const MatchState& state) const {
    const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    if (jit_) {
      return pcre2_jit_match(code_, subject, text.size(), from, 0, state.data(), state.context());
    }
    return pcre2_match(code_, subject, text.size(), from, PCRE2_NO_UTF_CHECK, state.data(),
                       state.context());
  }

 private:
  Expression(pcre2_code* code, bool jit) : code_(code), jit_(jit) {}

  pcre2_code* code_;
  bool jit_;
};

// Runs of valid text through the expressions. One object per Split call.
class Splitter {
 public:
  Splitter(const std::vector<Expression>& expressions, Pretokenizer::Sink sink)
      : expressions_(expressions), sink_(sink), state_(MatchState::ForThisThread()) {}

  // False once the sink is satisfied or PCRE2 has failed.
  bool Run(std::string_view text, size_t stage) {
    if (stage == expressions_.size()) return sink_(text);
    size_t at = 0;
    while (at < text.size()) {
      const int found = expressions_[stage].Match(text, at, state_);
      if (found == PCRE2_ERROR_NOMATCH) return Run(text.substr(at), stage + 1);
      if (found < 0) {
        error_ = found;
        return false;
      }
      const PCRE2_SIZE* const ends = pcre2_get_ovector_pointer(state_.data());
      const size_t begin = ends[0];
      const size_t end = ends[1];
      if (begin > at && !Run(text.substr(at, begin - at), stage + 1)) return false;
      if (!Run(text.substr(begin, end - begin), stage + 1)) return false;
      at = end;
    }
    return true;
  }

  absl::Status status() const {
    if (error_ == 0) return absl::OkStatus();
    return Internal("the pre-tokenizer failed: PCRE2 error " + std::to_string(error_));
  }
  bool ready() const { return state_.ok(); }

 private:
  const std::vector<Expression>& expressions_;
  Pretokenizer::Sink sink_;
  MatchState& state_;
  int error_ = 0;
};

}  // namespace

struct Pretokenizer::Impl {
  std::vector<Expression> expressions;
  bool whole_piece_first = false;
};

Pretokenizer::Pretokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Pretokenizer::~Pretokenizer() = default;

bool Pretokenizer::whole_piece_first() const { return impl_->whole_piece_first; }

absl::StatusOr<std::unique_ptr<const Pretokenizer>> Pretokenizer::Create(std::string_view name,
                                                                         Jit jit) {
  const Kind* kind = FindKind(name);
  if (kind == nullptr) {
    std::string known;
    for (const Kind& k : kKinds) known += (known.empty() ? "" : ", ") + std::string(k.name);
    return InvalidArgument("tokenizer.ggml.pre: the pre-tokenizer '" +
                           ReplaceInvalidUtf8(name.substr(0, 64)) +
                           "' is not known; known are: " + known);
  }
  auto impl = std::make_unique<Impl>();
  impl->whole_piece_first = kind->whole_piece_first;
  for (std::string_view expression : kind->expressions) {
    if (expression.empty()) break;
    SLUICE_ASSIGN_OR_RETURN(Expression compiled,
                            Expression::Compile(expression, jit == Jit::kWherePossible));
    impl->expressions.push_back(std::move(compiled));
  }
  return std::unique_ptr<const Pretokenizer>(new Pretokenizer(std::move(impl)));
}

absl::Status Pretokenizer::Split(std::string_view text, Sink sink) const {
  Splitter splitter(impl_->expressions, sink);
  if (!splitter.ready()) return ResourceExhausted("the pre-tokenizer: out of memory");
  size_t at = 0;
  while (at < text.size()) {
    const size_t valid = ValidUtf8Prefix(text.substr(at));
    if (valid > 0 && !splitter.Run(text.substr(at, valid), 0)) return splitter.status();
    at += valid;
    size_t invalid_end = at;
    while (invalid_end < text.size()) {
      const Utf8Unit unit = NextUtf8(text.substr(invalid_end));
      if (unit.kind == Utf8Kind::kCharacter) break;
      invalid_end += unit.length;
    }
    if (invalid_end > at && !sink(text.substr(at, invalid_end - at))) break;
    at = invalid_end;
  }
  return splitter.status();
}

}  // namespace sluice::engine
