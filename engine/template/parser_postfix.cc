#include "engine/template/parser_base.h"

// What follows a primary expression: attributes, subscripts, calls, filters and tests.
namespace sluice::engine::jinja {

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
