#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "engine/base/status.h"

namespace sluice::engine {

// Splits text into the pieces that merges never cross: one or more regular expressions, known by
// the name that the model file gives (tokenizer.ggml.pre), run by PCRE2 (JIT-compiled where the
// system allows). Each expression in turn cuts the pieces of the one before; text that it does not
// match is a piece too. The pieces in order are the text. Immutable after Create; used by any
// number of threads at once. Unicode properties are those of the installed PCRE2 (10.42: Unicode
// 14).
class Pretokenizer {
 public:
  // kWherePossible: not where the system forbids memory that can be written and run; there PCRE2
  // interprets the expressions, with the same answers, several times slower.
  enum class Jit { kWherePossible, kNever };

  // InvalidArgument, with the known names, when `name` is not one of them.
  static absl::StatusOr<std::unique_ptr<const Pretokenizer>> Create(std::string_view name,
                                                                    Jit jit = Jit::kWherePossible);
  ~Pretokenizer();
  Pretokenizer(const Pretokenizer&) = delete;
  Pretokenizer& operator=(const Pretokenizer&) = delete;

  // Takes one piece, never empty, a view into the text; false ends the splitting.
  using Sink = absl::FunctionRef<bool(std::string_view)>;

  // Gives the pieces of `text` to `sink`, in order. Bytes that are not UTF-8 end a piece: each
  // longest run of them is a piece of its own, and the text on either side is split as if it stood
  // alone. Internal when PCRE2 runs out of a resource.
  absl::Status Split(std::string_view text, Sink sink) const;

  // A piece that is a token as a whole becomes that token, whatever the merges say.
  bool whole_piece_first() const;

 private:
  struct Impl;
  explicit Pretokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::engine
