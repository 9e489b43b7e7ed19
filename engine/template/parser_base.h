#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/template/ast.h"
#include "engine/template/lexer.h"

namespace sluice::engine::jinja {

// The token stream, the first error, and the names met so far: what both halves of the parser stand
// on. After an error every function returns at once, with whatever it has.
class ParserBase {
 public:
  ParserBase(std::vector<Token> tokens, int nesting_max)
      : tokens_(std::move(tokens)), nesting_max_(nesting_max) {}

  bool failed() const { return !error_.empty(); }
  const std::string& error() const { return error_; }
  uint32_t error_offset() const { return error_offset_; }
  std::vector<std::string> TakeNames() { return std::move(names_); }

  // The number of a variable name.
  int Intern(std::string_view name);

 protected:
  // Counts one more level of nesting while it lives; fails when there are too many.
  class Nested {
   public:
    explicit Nested(ParserBase* parser) : parser_(parser) {
      if (++parser_->nesting_ > parser_->nesting_max_) {
        parser_->Fail("nested deeper than " + std::to_string(parser_->nesting_max_) + " levels");
      }
    }
    ~Nested() { --parser_->nesting_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    ParserBase* parser_;
  };

  const Token& current() const { return tokens_[at_]; }
  const Token& look() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  void Advance() {
    if (at_ + 1 < tokens_.size()) ++at_;
  }

  // Where the stream stands, and whether a name was read since it stood at `first`.
  size_t position() const { return at_; }
  bool MentionedSince(size_t first, std::string_view name) const;

  static bool IsOperator(const Token& token, std::string_view text) {
    return token.type == TokenType::kOperator && token.text == text;
  }
  static bool IsName(const Token& token, std::string_view text) {
    return token.type == TokenType::kName && token.text == text;
  }
  bool AtOperator(std::string_view text) const { return IsOperator(current(), text); }
  bool AtName(std::string_view text) const { return IsName(current(), text); }
  bool SkipOperator(std::string_view text);
  bool SkipName(std::string_view text);
  bool ExpectOperator(std::string_view text);
  bool ExpectType(TokenType type);
  std::string ExpectName();

  void Fail(std::string_view message) { FailAt(current().offset, message); }
  void FailAt(uint32_t offset, std::string_view message);
  // "expected X, got Y", at the current token.
  void FailExpected(std::string_view expected);

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
  const int nesting_max_;
  std::string error_;
  uint32_t error_offset_ = 0;
  std::vector<std::string> names_;
  std::unordered_map<std::string, int> name_ids_;
};

// Parses expressions, by precedence from the inline if down to literals.
class ExpressionParser : public ParserBase {
 public:
  using ParserBase::ParserBase;

 protected:
  struct TupleOptions {
    bool conditional = true;         // inline ifs are allowed
    bool parenthesized = false;      // an empty tuple is allowed
    std::string_view end_name = {};  // a name that ends the tuple
  };

  ExprPtr ParseExpression(bool conditional = true);
  ExprPtr ParseTuple(const TupleOptions& options);
  // One or more filters, the first without its bar when `inline_first`.
  ExprPtr ParseFilters(ExprPtr input, bool inline_first);
  std::unique_ptr<Expr> Make(ExprKind kind, uint32_t offset) const;
  // Closes a node over its operands: counts its depth, and fails when it is too deep to be
  // evaluated.
  ExprPtr Finish(std::unique_ptr<Expr> expr);

  // Within the branches of an if, an unknown filter or test fails only when it is used.
  int conditional_depth_ = 0;

 private:
  ExprPtr ParseConditional();
  ExprPtr ParseOr();
  ExprPtr ParseAnd();
  ExprPtr ParseNot();
  ExprPtr ParseCompare();
  ExprPtr ParseSum();
  ExprPtr ParseConcat();
  ExprPtr ParseProduct();
  ExprPtr ParsePower();
  ExprPtr ParseUnary(bool with_filters);
  ExprPtr ParsePrimary();
  ExprPtr ParseNameOrLiteral();
  ExprPtr ParseString();
  ExprPtr ParseList();
  ExprPtr ParseDict();
  ExprPtr ParsePostfix(ExprPtr expr);
  ExprPtr ParseFiltersAndTests(ExprPtr expr);
  ExprPtr ParseTest(ExprPtr input);
  ExprPtr ParseCall(ExprPtr callee);
  ExprPtr ParseAttribute(ExprPtr object);
  ExprPtr ParseSubscript(ExprPtr object);
  ExprPtr ParseSubscriptItem(ExprPtr* object);
  void ParseArguments(CallArguments* arguments);
  void ParseArgument(CallArguments* arguments);
  bool TakeComparison(Comparison* op);
  ExprPtr Unary(ExprKind kind, uint32_t offset, ExprPtr operand);
  ExprPtr Binary(std::unique_ptr<Expr> node, ExprPtr left, ExprPtr right);
  std::string ParseDottedName();
};

}  // namespace sluice::engine::jinja
