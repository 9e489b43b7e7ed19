#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace sluice::engine::jinja {

enum class TokenType {
  kData,           // text: literal template text, white space control already applied
  kBlockBegin,     // {%
  kBlockEnd,       // %}
  kVariableBegin,  // {{
  kVariableEnd,    // }}
  kName,
  kString,    // text: with escapes resolved
  kInteger,   // integer
  kFloat,     // real
  kOperator,  // text: "+", "//", "(", ...
  kEnd,
};

struct Token {
  TokenType type = TokenType::kEnd;
  uint32_t offset = 0;  // bytes from the start of the normalised source
  std::string text;
  int64_t integer = 0;
  double real = 0;
};

// The source with all newlines as "\n" and without one trailing newline, as Jinja2 reads it.
std::string NormalizeSource(std::string_view source);

// "line 3, column 14": where byte `offset` of a normalised source is; columns count characters
// from 1.
std::string DescribePosition(std::string_view source, uint32_t offset);

// Splits a normalised source into tokens; the last one is kEnd. White space control is Jinja2's
// with trim_blocks and lstrip_blocks. On failure *error_offset says where.
absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source, uint32_t* error_offset);

}  // namespace sluice::engine::jinja
