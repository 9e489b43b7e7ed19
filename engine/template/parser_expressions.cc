#include <algorithm>
#include <array>

#include "engine/template/parser_base.h"

namespace sluice::engine::jinja {
namespace {

// Long chains such as a + b + c nest to the left without any bracket; evaluation recurses as deep.
constexpr int kExpressionDepthMax = 400;

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

// ---- ParserBase

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

// ---- what follows a primary: attributes, subscripts, calls, filters, tests

ExprPtr ExpressionParser::ParsePostfix(ExprPtr expr) {
  while (!failed()) {
    if (AtOperator(".")) {
      expr = ParseAttribute(std::move(expr));
    } else if (AtOperator("[")) {
      expr = ParseSubscript(std::move(expr));
    } else if (AtOperator("(")) {
      expr = ParseCall(std::move(expr));
    } else {
      return expr;
    }
  }
  return nullptr;
}

ExprPtr ExpressionParser::ParseFiltersAndTests(ExprPtr expr) {
  while (!failed()) {
    if (AtOperator("|")) {
      expr = ParseFilters(std::move(expr), false);
    } else if (AtName("is")) {
      expr = ParseTest(std::move(expr));
    } else if (AtOperator("(")) {
      expr = ParseCall(std::move(expr));
    } else {
      return expr;
    }
  }
  return nullptr;
}

std::string ExpressionParser::ParseDottedName() {
  std::string name = ExpectName();
  while (!failed() && SkipOperator(".")) name += "." + ExpectName();
  return name;
}

ExprPtr ExpressionParser::ParseFilters(ExprPtr input, bool inline_first) {
  while (!failed() && (inline_first || AtOperator("|"))) {
    if (!inline_first) Advance();
    inline_first = false;
    auto node = Make(ExprKind::kFilter, current().offset);
    node->text = ParseDottedName();
    node->filter = FindFilter(node->text);
    if (!node->filter && conditional_depth_ == 0) {
      FailAt(node->offset, "no filter named '" + node->text + "'");
    }
    node->operands.push_back(std::move(input));
    if (!failed() && AtOperator("(")) ParseArguments(&node->arguments);
    if (!failed()) input = Finish(std::move(node));
  }
  return failed() ? nullptr : std::move(input);
}

ExprPtr ExpressionParser::ParseTest(ExprPtr input) {
  Advance();
  const uint32_t offset = current().offset;
  const bool negated = SkipName("not");
  auto node = Make(ExprKind::kTest, current().offset);
  node->text = ParseDottedName();
  node->test = FindTest(node->text);
  if (!failed() && !node->test && conditional_depth_ == 0) {
    FailAt(node->offset, "no test named '" + node->text + "'");
  }
  node->operands.push_back(std::move(input));
  if (failed()) return nullptr;
  const TokenType type = current().type;
  const bool literal = type == TokenType::kString || type == TokenType::kInteger ||
                       type == TokenType::kFloat || AtOperator("[") || AtOperator("{");
  const bool name = type == TokenType::kName && !AtName("else") && !AtName("or") && !AtName("and");
  if (AtOperator("(")) {
    ParseArguments(&node->arguments);
  } else if (literal || name) {
    if (AtName("is")) {
      Fail("tests can't be chained with is");
      return nullptr;
    }
    ExprPtr argument = ParsePrimary();
    if (!failed()) argument = ParsePostfix(std::move(argument));
    node->arguments.positional.push_back(std::move(argument));
  }
  if (failed()) return nullptr;
  ExprPtr test = Finish(std::move(node));
  return negated && !failed() ? Unary(ExprKind::kNot, offset, std::move(test)) : std::move(test);
}

ExprPtr ExpressionParser::ParseCall(ExprPtr callee) {
  auto node = Make(ExprKind::kCall, current().offset);
  node->operands.push_back(std::move(callee));
  ParseArguments(&node->arguments);
  return failed() ? nullptr : Finish(std::move(node));
}

void ExpressionParser::ParseArguments(CallArguments* arguments) {
  if (!ExpectOperator("(")) return;
  Nested nested(this);
  bool first = true;
  while (!failed() && !AtOperator(")")) {
    if (!first && !ExpectOperator(",")) return;
    if (!first && AtOperator(")")) break;
    first = false;
    ParseArgument(arguments);
  }
  if (!failed()) ExpectOperator(")");
}

void ExpressionParser::ParseArgument(CallArguments* arguments) {
  const bool after_stars = arguments->star || arguments->star_star;
  if (SkipOperator("*")) {
    if (after_stars) return Fail("*arguments come once, and before **arguments");
    arguments->star = ParseExpression();
  } else if (SkipOperator("**")) {
    if (arguments->star_star) return Fail("**arguments come once");
    arguments->star_star = ParseExpression();
  } else if (current().type == TokenType::kName && IsOperator(look(), "=")) {
    if (arguments->star_star) return Fail("named arguments come before **arguments");
    std::string name = current().text;
    for (const auto& one : arguments->named) {
      if (one.first == name) return Fail("the argument '" + name + "' is given twice");
    }
    Advance();
    Advance();
    arguments->named.emplace_back(std::move(name), ParseExpression());
  } else {
    if (after_stars || !arguments->named.empty()) {
      return Fail("positional arguments come before named ones");
    }
    arguments->positional.push_back(ParseExpression());
  }
}

ExprPtr ExpressionParser::ParseAttribute(ExprPtr object) {
  Advance();
  const Token& token = current();
  if (token.type == TokenType::kName) {
    auto node = Make(ExprKind::kAttribute, token.offset);
    node->text = token.text;
    Advance();
    node->operands.push_back(std::move(object));
    return Finish(std::move(node));
  }
  if (token.type != TokenType::kInteger) {
    FailExpected("a name or a number");
    return nullptr;
  }
  auto index = Make(ExprKind::kConstant, token.offset);
  index->constant = Value(token.integer);
  auto node = Make(ExprKind::kItem, token.offset);
  Advance();
  return Binary(std::move(node), std::move(object), Finish(std::move(index)));
}

ExprPtr ExpressionParser::ParseSubscript(ExprPtr object) {
  const uint32_t offset = current().offset;
  Advance();
  Nested nested(this);
  std::vector<ExprPtr> keys;
  bool first = true;
  while (!failed() && !AtOperator("]")) {
    if (!first && !ExpectOperator(",")) return nullptr;
    first = false;
    ExprPtr item = ParseSubscriptItem(&object);
    if (failed()) return nullptr;
    if (!item) {  // a slice: object now holds it
      if (!keys.empty() || !AtOperator("]")) {
        Fail("a slice can't be one of several subscripts");
        return nullptr;
      }
      Advance();
      return object;
    }
    keys.push_back(std::move(item));
  }
  if (failed() || !ExpectOperator("]")) return nullptr;
  if (keys.empty()) {
    FailExpected("a subscript");
    return nullptr;
  }
  auto node = Make(ExprKind::kItem, offset);
  if (keys.size() == 1) return Binary(std::move(node), std::move(object), std::move(keys[0]));
  auto tuple = Make(ExprKind::kTuple, offset);
  tuple->operands = std::move(keys);
  return Binary(std::move(node), std::move(object), Finish(std::move(tuple)));
}

// One subscript; or null for a slice, over which *object is then closed.
ExprPtr ExpressionParser::ParseSubscriptItem(ExprPtr* object) {
  const uint32_t offset = current().offset;
  ExprPtr parts[3];
  if (!AtOperator(":")) {
    parts[0] = ParseExpression();
    if (failed() || !AtOperator(":")) return std::move(parts[0]);
  }
  Advance();
  for (int i = 1; i < 3; ++i) {
    if (i == 2 && !SkipOperator(":")) break;
    if (AtOperator("]") || AtOperator(",") || AtOperator(":")) continue;
    parts[i] = ParseExpression();
    if (failed()) return nullptr;
  }
  auto node = Make(ExprKind::kSlice, offset);
  node->operands.push_back(std::move(*object));
  for (ExprPtr& part : parts) node->operands.push_back(std::move(part));
  *object = Finish(std::move(node));
  return nullptr;
}

}  // namespace sluice::engine::jinja
