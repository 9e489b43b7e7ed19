#include <algorithm>
#include <array>

#include "engine/template/parser_base.h"

namespace sluice::engine::jinja {
namespace {

// Long chains such as a + b + c nest to the left without any bracket; evaluation recurses as deep.
constexpr int kExpressionDepthMax = 400;

}  // namespace

// ---- nodes

std::unique_ptr<Expr> ExpressionParser::Make(ExprKind kind, uint32_t offset) const {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->offset = offset;
  return expr;
}

ExprPtr ExpressionParser::Finish(std::unique_ptr<Expr> expr) {
  const auto count = [&](const ExprPtr& part) {
    if (part) expr->depth = std::max(expr->depth, part->depth + 1);
  };
  for (const ExprPtr& part : expr->operands) count(part);
  for (const ExprPtr& part : expr->arguments.positional) count(part);
  for (const auto& [name, part] : expr->arguments.named) count(part);
  count(expr->arguments.star);
  count(expr->arguments.star_star);
  if (expr->depth > kExpressionDepthMax) {
    FailAt(expr->offset, "the expression has more than " + std::to_string(kExpressionDepthMax) +
                             " operations in a row");
  }
  return failed() ? nullptr : std::move(expr);
}

ExprPtr ExpressionParser::Unary(ExprKind kind, uint32_t offset, ExprPtr operand) {
  auto node = Make(kind, offset);
  node->operands.push_back(std::move(operand));
  return Finish(std::move(node));
}

ExprPtr ExpressionParser::Binary(std::unique_ptr<Expr> node, ExprPtr left, ExprPtr right) {
  node->operands.push_back(std::move(left));
  node->operands.push_back(std::move(right));
  return Finish(std::move(node));
}

// ---- by precedence

ExprPtr ExpressionParser::ParseExpression(bool conditional) {
  return conditional ? ParseConditional() : ParseOr();
}

ExprPtr ExpressionParser::ParseTuple(const TupleOptions& options) {
  const uint32_t offset = current().offset;
  auto tuple = Make(ExprKind::kTuple, offset);
  bool is_tuple = false;
  while (!failed()) {
    if (!tuple->operands.empty() && !ExpectOperator(",")) return nullptr;
    const TokenType type = current().type;
    if (type == TokenType::kVariableEnd || type == TokenType::kBlockEnd || AtOperator(")") ||
        (!options.end_name.empty() && AtName(options.end_name))) {
      break;
    }
    tuple->operands.push_back(ParseExpression(options.conditional));
    if (!AtOperator(",")) break;
    is_tuple = true;
  }
  if (failed()) return nullptr;
  if (!is_tuple && !tuple->operands.empty()) return std::move(tuple->operands[0]);
  if (!is_tuple && !options.parenthesized) {
    FailExpected("an expression");
    return nullptr;
  }
  return Finish(std::move(tuple));
}

ExprPtr ExpressionParser::ParseConditional() {
  uint32_t offset = current().offset;
  ExprPtr expr = ParseOr();
  while (!failed() && SkipName("if")) {
    auto node = Make(ExprKind::kConditional, offset);
    ++conditional_depth_;
    ExprPtr condition = ParseOr();
    ExprPtr otherwise;
    if (!failed() && SkipName("else")) {
      Nested nested(this);
      if (!failed()) otherwise = ParseConditional();
    }
    --conditional_depth_;
    if (failed()) return nullptr;
    node->operands.push_back(std::move(condition));
    node->operands.push_back(std::move(expr));
    node->operands.push_back(std::move(otherwise));
    expr = Finish(std::move(node));
  }
  return expr;
}

ExprPtr ExpressionParser::ParseOr() {
  ExprPtr left = ParseAnd();
  while (!failed() && AtName("or")) {
    auto node = Make(ExprKind::kOr, current().offset);
    Advance();
    ExprPtr right = ParseAnd();
    if (!failed()) left = Binary(std::move(node), std::move(left), std::move(right));
  }
  return left;
}

ExprPtr ExpressionParser::ParseAnd() {
  ExprPtr left = ParseNot();
  while (!failed() && AtName("and")) {
    auto node = Make(ExprKind::kAnd, current().offset);
    Advance();
    ExprPtr right = ParseNot();
    if (!failed()) left = Binary(std::move(node), std::move(left), std::move(right));
  }
  return left;
}

ExprPtr ExpressionParser::ParseNot() {
  if (!AtName("not")) return ParseCompare();
  const uint32_t offset = current().offset;
  Advance();
  Nested nested(this);
  if (failed()) return nullptr;
  ExprPtr operand = ParseNot();
  return failed() ? nullptr : Unary(ExprKind::kNot, offset, std::move(operand));
}

bool ExpressionParser::TakeComparison(Comparison* op) {
  static constexpr std::array<std::pair<std::string_view, Comparison>, 6> kSymbols = {
      {{"==", Comparison::kEq},
       {"!=", Comparison::kNe},
       {"<", Comparison::kLt},
       {"<=", Comparison::kLe},
       {">", Comparison::kGt},
       {">=", Comparison::kGe}}};
  for (const auto& [symbol, comparison] : kSymbols) {
    if (SkipOperator(symbol)) {
      *op = comparison;
      return true;
    }
  }
  if (SkipName("in")) {
    *op = Comparison::kIn;
    return true;
  }
  if (AtName("not") && IsName(look(), "in")) {
    Advance();
    Advance();
    *op = Comparison::kNotIn;
    return true;
  }
  return false;
}

ExprPtr ExpressionParser::ParseCompare() {
  const uint32_t offset = current().offset;
  ExprPtr first = ParseSum();
  Comparison op;
  if (failed() || !TakeComparison(&op)) return first;
  auto node = Make(ExprKind::kCompare, offset);
  node->operands.push_back(std::move(first));
  do {
    node->comparisons.push_back(op);
    node->operands.push_back(ParseSum());
    if (failed()) return nullptr;
  } while (TakeComparison(&op));
  return Finish(std::move(node));
}

ExprPtr ExpressionParser::ParseSum() {
  ExprPtr left = ParseConcat();
  while (!failed() && (AtOperator("+") || AtOperator("-"))) {
    auto node = Make(ExprKind::kArithmetic, current().offset);
    node->arithmetic = AtOperator("+") ? Arithmetic::kAdd : Arithmetic::kSub;
    Advance();
    ExprPtr right = ParseConcat();
    if (!failed()) left = Binary(std::move(node), std::move(left), std::move(right));
  }
  return left;
}

ExprPtr ExpressionParser::ParseConcat() {
  ExprPtr first = ParseProduct();
  if (failed() || !AtOperator("~")) return first;
  auto node = Make(ExprKind::kConcat, current().offset);
  node->operands.push_back(std::move(first));
  while (SkipOperator("~")) {
    node->operands.push_back(ParseProduct());
    if (failed()) return nullptr;
  }
  return Finish(std::move(node));
}

ExprPtr ExpressionParser::ParseProduct() {
  static constexpr std::array<std::pair<std::string_view, Arithmetic>, 4> kSymbols = {
      {{"*", Arithmetic::kMul},
       {"/", Arithmetic::kDiv},
       {"//", Arithmetic::kFloorDiv},
       {"%", Arithmetic::kMod}}};
  ExprPtr left = ParsePower();
  while (!failed()) {
    const auto* symbol = std::find_if(kSymbols.begin(), kSymbols.end(),
                                      [&](const auto& one) { return AtOperator(one.first); });
    if (symbol == kSymbols.end()) break;
    auto node = Make(ExprKind::kArithmetic, current().offset);
    node->arithmetic = symbol->second;
    Advance();
    ExprPtr right = ParsePower();
    if (!failed()) left = Binary(std::move(node), std::move(left), std::move(right));
  }
  return left;
}

// Jinja2's ** groups from the left, unlike Python's.
ExprPtr ExpressionParser::ParsePower() {
  ExprPtr left = ParseUnary(true);
  while (!failed() && AtOperator("**")) {
    auto node = Make(ExprKind::kArithmetic, current().offset);
    node->arithmetic = Arithmetic::kPow;
    Advance();
    ExprPtr right = ParseUnary(true);
    if (!failed()) left = Binary(std::move(node), std::move(left), std::move(right));
  }
  return left;
}

ExprPtr ExpressionParser::ParseUnary(bool with_filters) {
  ExprPtr expr;
  if (AtOperator("-") || AtOperator("+")) {
    const ExprKind kind = AtOperator("-") ? ExprKind::kNegate : ExprKind::kPlus;
    const uint32_t offset = current().offset;
    Advance();
    Nested nested(this);
    if (failed()) return nullptr;
    expr = ParseUnary(false);
    if (!failed()) expr = Unary(kind, offset, std::move(expr));
  } else {
    expr = ParsePrimary();
  }
  if (!failed()) expr = ParsePostfix(std::move(expr));
  if (!failed() && with_filters) expr = ParseFiltersAndTests(std::move(expr));
  return failed() ? nullptr : std::move(expr);
}

// ---- literals and names

ExprPtr ExpressionParser::ParsePrimary() {
  const Token& token = current();
  if (token.type == TokenType::kName) return ParseNameOrLiteral();
  if (token.type == TokenType::kString) return ParseString();
  if (token.type == TokenType::kInteger || token.type == TokenType::kFloat) {
    auto node = Make(ExprKind::kConstant, token.offset);
    node->constant = token.type == TokenType::kInteger ? Value(token.integer) : Value(token.real);
    Advance();
    return Finish(std::move(node));
  }
  if (AtOperator("[")) return ParseList();
  if (AtOperator("{")) return ParseDict();
  if (SkipOperator("(")) {
    Nested nested(this);
    if (failed()) return nullptr;
    TupleOptions options;
    options.parenthesized = true;
    ExprPtr expr = ParseTuple(options);
    if (!failed()) ExpectOperator(")");
    return failed() ? nullptr : std::move(expr);
  }
  FailExpected("an expression");
  return nullptr;
}

ExprPtr ExpressionParser::ParseNameOrLiteral() {
  const Token& token = current();
  const std::string& name = token.text;
  const bool is_true = name == "true" || name == "True";
  auto node = Make(ExprKind::kConstant, token.offset);
  if (is_true || name == "false" || name == "False") {
    node->constant = Value(is_true);
  } else if (name == "none" || name == "None") {
    node->constant = None{};
  } else {
    node->kind = ExprKind::kName;
    node->name = Intern(name);
    node->text = name;
  }
  Advance();
  return Finish(std::move(node));
}

ExprPtr ExpressionParser::ParseString() {
  auto node = Make(ExprKind::kConstant, current().offset);
  std::string text;
  for (; current().type == TokenType::kString; Advance()) text += current().text;
  node->constant = Value::Text(std::move(text));
  return Finish(std::move(node));
}

ExprPtr ExpressionParser::ParseList() {
  auto node = Make(ExprKind::kList, current().offset);
  Advance();
  Nested nested(this);
  while (!failed() && !AtOperator("]")) {
    if (!node->operands.empty() && !ExpectOperator(",")) return nullptr;
    if (AtOperator("]")) break;
    node->operands.push_back(ParseExpression());
  }
  if (!failed()) ExpectOperator("]");
  return failed() ? nullptr : Finish(std::move(node));
}

ExprPtr ExpressionParser::ParseDict() {
  auto node = Make(ExprKind::kDict, current().offset);
  Advance();
  Nested nested(this);
  while (!failed() && !AtOperator("}")) {
    if (!node->operands.empty() && !ExpectOperator(",")) return nullptr;
    if (AtOperator("}")) break;
    node->operands.push_back(ParseExpression());
    if (failed() || !ExpectOperator(":")) return nullptr;
    node->operands.push_back(ParseExpression());
  }
  if (!failed()) ExpectOperator("}");
  return failed() ? nullptr : Finish(std::move(node));
}

}  // namespace sluice::engine::jinja
