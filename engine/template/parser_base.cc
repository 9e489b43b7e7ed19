#include "engine/template/parser_base.h"

namespace sluice::engine::jinja {
namespace {

std::string DescribeToken(const Token& token) {
  switch (token.type) {
    case TokenType::kData:
      return "template text";
    case TokenType::kBlockBegin:
      return "'{%'";
    case TokenType::kBlockEnd:
      return "'%}'";
    case TokenType::kVariableBegin:
      return "'{{'";
    case TokenType::kVariableEnd:
      return "'}}'";
    case TokenType::kString:
      return "a string";
    case TokenType::kInteger:
      return "an integer";
    case TokenType::kFloat:
      return "a number";
    case TokenType::kName:
    case TokenType::kOperator:
      return "'" + token.text + "'";
    case TokenType::kEnd:
      return "the end of the template";
  }
  return "?";
}

}  // namespace

int ParserBase::Intern(std::string_view name) {
  const auto [it, added] =
      name_ids_.try_emplace(std::string(name), static_cast<int>(names_.size()));
  if (added) names_.emplace_back(name);
  return it->second;
}

bool ParserBase::MentionedSince(size_t first, std::string_view name) const {
  for (size_t i = first; i < at_; ++i) {
    if (IsName(tokens_[i], name)) return true;
  }
  return false;
}

bool ParserBase::SkipOperator(std::string_view text) {
  if (!AtOperator(text)) return false;
  Advance();
  return true;
}

bool ParserBase::SkipName(std::string_view text) {
  if (!AtName(text)) return false;
  Advance();
  return true;
}

bool ParserBase::ExpectOperator(std::string_view text) {
  if (SkipOperator(text)) return true;
  FailExpected("'" + std::string(text) + "'");
  return false;
}

bool ParserBase::ExpectType(TokenType type) {
  if (current().type == type) {
    Advance();
    return true;
  }
  Token wanted;
  wanted.type = type;
  FailExpected(DescribeToken(wanted));
  return false;
}

std::string ParserBase::ExpectName() {
  if (current().type != TokenType::kName) {
    FailExpected("a name");
    return "";
  }
  std::string name = current().text;
  Advance();
  return name;
}

void ParserBase::FailAt(uint32_t offset, std::string_view message) {
  if (failed()) return;
  error_ = message;
  error_offset_ = offset;
}

void ParserBase::FailExpected(std::string_view expected) {
  Fail("expected " + std::string(expected) + ", got " + DescribeToken(current()));
}

}  // namespace sluice::engine::jinja
