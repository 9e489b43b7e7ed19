#include "engine/template/parser.h"

#include <algorithm>

#include "engine/template/lexer.h"
#include "engine/template/parser_base.h"

namespace sluice::engine::jinja {
namespace {

using StatementPtr = std::unique_ptr<const Statement>;

class Parser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Block ParseTemplate() {
    Block body = ParseBody({});
    if (!failed() && current().type != TokenType::kEnd) FailExpected("the end of the template");
    return body;
  }

 private:
  using EndTags = std::initializer_list<std::string_view>;

  // Statements up to one of the end tags, whose name is then the current token.
  Block ParseBody(EndTags end_tags) {
    Block body;
    while (!failed() && current().type != TokenType::kEnd) {
      if (current().type == TokenType::kData) {
        auto node = Make(StatementKind::kData);
        node->text = current().text;
        Advance();
        body.push_back(std::move(node));
      } else if (current().type == TokenType::kVariableBegin) {
        auto node = Make(StatementKind::kOutput);
        Advance();
        node->exprs.push_back(ParseTuple({}));
        if (!failed()) ExpectType(TokenType::kVariableEnd);
        body.push_back(std::move(node));
      } else {
        ExpectType(TokenType::kBlockBegin);
        if (failed()) break;
        if (std::find_if(end_tags.begin(), end_tags.end(), [&](auto tag) { return AtName(tag); }) !=
            end_tags.end()) {
          return body;
        }
        ParseStatement(end_tags, &body);
        if (!failed()) ExpectType(TokenType::kBlockEnd);
      }
    }
    if (!failed() && end_tags.size() != 0) FailExpected(DescribeTags(end_tags));
    return body;
  }

  static std::string DescribeTags(EndTags tags) {
    std::string text;
    for (std::string_view tag : tags) {
      text += (text.empty() ? "{% " : " or {% ") + std::string(tag) + " %}";
    }
    return text;
  }

  // The rest of a block's tag, its body, and the end tag's name, which becomes current.
  Block ParseNestedBody(EndTags end_tags) {
    Nested nested(this);
    SkipOperator(":");
    if (failed() || !ExpectType(TokenType::kBlockEnd)) return {};
    return ParseBody(end_tags);
  }

  // The same when only one tag can end the block: it is swallowed.
  Block ParseWholeBody(std::string_view end_tag) {
    Block body = ParseNestedBody({end_tag});
    if (!failed()) Advance();
    return body;
  }

  void ParseStatement(EndTags end_tags, Block* body) {
    if (current().type != TokenType::kName) return FailExpected("a tag name");
    const std::string& tag = current().text;
    StatementPtr node;
    if (tag == "if") {
      node = ParseIf();
    } else if (tag == "for") {
      node = ParseFor();
    } else if (tag == "set") {
      node = ParseSet();
    } else if (tag == "macro") {
      node = ParseMacro();
    } else if (tag == "call") {
      node = ParseCallBlock();
    } else if (tag == "filter") {
      node = ParseFilterBlock();
    } else if (tag == "with") {
      node = ParseWith();
    } else if (tag == "generation") {
      node = ParseGeneration();
    } else if (tag == "print") {
      return ParsePrint(body);
    } else if (tag == "break" || tag == "continue") {
      node = ParseLoopControl();
    } else if (end_tags.size() != 0) {
      return Fail("unknown tag '" + tag + "'; expected " + DescribeTags(end_tags));
    } else {
      return Fail("unknown tag '" + tag + "'");
    }
    if (node) body->push_back(std::move(node));
  }

  std::unique_ptr<Statement> Make(StatementKind kind) const {
    auto node = std::make_unique<Statement>();
    node->kind = kind;
    node->offset = current().offset;
    return node;
  }

  StatementPtr ParseIf() {
    auto node = Make(StatementKind::kIf);
    ++conditional_depth_;
    do {
      Advance();
      TupleOptions options;
      options.conditional = false;
      node->exprs.push_back(ParseTuple(options));
      node->blocks.push_back(ParseNestedBody({"elif", "else", "endif"}));
    } while (!failed() && AtName("elif"));
    if (!failed() && SkipName("else")) {
      node->blocks.push_back(ParseWholeBody("endif"));
    } else if (!failed()) {
      Advance();
    }
    --conditional_depth_;
    return node;
  }

  StatementPtr ParseFor() {
    auto node = Make(StatementKind::kFor);
    Advance();
    node->targets.push_back(ParseTarget("in", false));
    if (!failed() && MentionsLoop(node->targets[0])) {
      FailAt(node->targets[0].offset, "can't assign to the special name 'loop' in a for loop");
    }
    if (!failed() && !SkipName("in")) FailExpected("'in'");
    if (failed()) return node;
    TupleOptions options;
    options.conditional = false;
    options.end_name = "recursive";
    node->exprs.push_back(ParseTuple(options));
    if (!failed()) node->exprs.push_back(SkipName("if") ? ParseExpression() : nullptr);
    if (failed()) return node;
    node->recursive = SkipName("recursive");
    ++loop_depth_;
    node->blocks.push_back(ParseNestedBody({"endfor", "else"}));
    --loop_depth_;
    if (failed()) return node;
    const bool has_else = AtName("else");
    Advance();
    node->blocks.push_back(has_else ? ParseWholeBody("endfor") : Block());
    return node;
  }

  bool MentionsLoop(const Target& target) {
    if (target.name == Intern("loop")) return true;
    return std::any_of(target.parts.begin(), target.parts.end(),
                       [&](const Target& part) { return MentionsLoop(part); });
  }

  StatementPtr ParseSet() {
    auto node = Make(StatementKind::kSet);
    Advance();
    node->targets.push_back(ParseTarget("", true));
    if (failed()) return node;
    if (SkipOperator("=")) {
      node->exprs.push_back(ParseTuple({}));
      return node;
    }
    node->kind = StatementKind::kSetBlock;
    auto captured = ExpressionParser::Make(ExprKind::kCaptured, node->offset);
    node->exprs.push_back(ParseFilters(Finish(std::move(captured)), false));
    if (!failed()) node->blocks.push_back(ParseWholeBody("endset"));
    return node;
  }

  StatementPtr ParseWith() {
    auto node = Make(StatementKind::kWith);
    Advance();
    while (!failed() && current().type != TokenType::kBlockEnd) {
      if (!node->targets.empty() && !ExpectOperator(",")) break;
      node->targets.push_back(ParseTarget("", false));
      if (failed() || !ExpectOperator("=")) break;
      node->exprs.push_back(ParseExpression());
    }
    if (!failed()) node->blocks.push_back(ParseWholeBody("endwith"));
    return node;
  }

  StatementPtr ParseGeneration() {
    auto node = Make(StatementKind::kScope);
    Advance();
    node->blocks.push_back(ParseWholeBody("endgeneration"));
    return node;
  }

  void ParsePrint(Block* body) {
    Advance();
    bool first = true;
    while (!failed() && current().type != TokenType::kBlockEnd) {
      if (!first && !ExpectOperator(",")) return;
      first = false;
      auto node = Make(StatementKind::kOutput);
      node->exprs.push_back(ParseExpression());
      body->push_back(std::move(node));
    }
  }

  StatementPtr ParseLoopControl() {
    auto node = Make(AtName("break") ? StatementKind::kBreak : StatementKind::kContinue);
    if (loop_depth_ == 0) Fail("'" + current().text + "' outside a for loop");
    Advance();
    return node;
  }

  StatementPtr ParseFilterBlock() {
    auto node = Make(StatementKind::kFilterBlock);
    Advance();
    auto captured = ExpressionParser::Make(ExprKind::kCaptured, node->offset);
    node->exprs.push_back(ParseFilters(Finish(std::move(captured)), true));
    if (!failed()) node->blocks.push_back(ParseWholeBody("endfilter"));
    return node;
  }

  StatementPtr ParseMacro() {
    auto node = Make(StatementKind::kMacro);
    Advance();
    const uint32_t offset = current().offset;
    node->macro.name = ExpectName();
    CheckAssignable(offset, node->macro.name);
    if (!failed()) {
      node->name = Intern(node->macro.name);
      ParseSignature(&node->macro);
    }
    if (!failed()) ParseMacroBody(&node->macro, "endmacro");
    return node;
  }

  StatementPtr ParseCallBlock() {
    auto node = Make(StatementKind::kCallBlock);
    Advance();
    node->macro.name = "caller";
    if (AtOperator("(")) ParseSignature(&node->macro);
    if (failed()) return node;
    ExprPtr call = ParseExpression();
    if (!failed() && call->kind != ExprKind::kCall) FailAt(node->offset, "expected a call");
    if (failed()) return node;
    node->exprs.push_back(std::move(call));
    ParseMacroBody(&node->macro, "endcall");
    return node;
  }

  void ParseSignature(MacroDefinition* macro) {
    if (!ExpectOperator("(")) return;
    while (!failed() && !AtOperator(")")) {
      if (!macro->parameters.empty() && !ExpectOperator(",")) return;
      const uint32_t offset = current().offset;
      std::string name = ExpectName();
      CheckAssignable(offset, name);
      if (failed()) return;
      for (const auto& parameter : macro->parameters) {
        if (parameter.second == name) return FailAt(offset, "duplicate parameter '" + name + "'");
      }
      macro->parameters.emplace_back(Intern(name), name);
      if (SkipOperator("=")) {
        macro->defaults.push_back(ParseExpression());
      } else if (!macro->defaults.empty()) {
        return Fail("a parameter without a default follows one with a default");
      }
    }
    if (!failed()) ExpectOperator(")");
  }

  void ParseMacroBody(MacroDefinition* macro, std::string_view end_tag) {
    const int outer_loops = std::exchange(loop_depth_, 0);
    const size_t first = position();
    macro->body = ParseWholeBody(end_tag);
    macro->uses_varargs = MentionedSince(first, "varargs");
    macro->uses_kwargs = MentionedSince(first, "kwargs");
    macro->uses_caller = MentionedSince(first, "caller");
    for (const auto& parameter : macro->parameters) {
      if (parameter.second == "varargs") macro->uses_varargs = false;
      if (parameter.second == "kwargs") macro->uses_kwargs = false;
      if (parameter.second == "caller") macro->uses_caller = true;
    }
    loop_depth_ = outer_loops;
  }

  void CheckAssignable(uint32_t offset, std::string_view name) {
    for (std::string_view constant : {"true", "false", "none", "True", "False", "None"}) {
      if (name == constant) FailAt(offset, "can't assign to '" + std::string(name) + "'");
    }
  }

  // A target of one or more parts, up to `end_name` or the end of what can be one.
  Target ParseTarget(std::string_view end_name, bool with_namespace) {
    Target target;
    target.offset = current().offset;
    while (!failed()) {
      if (!target.parts.empty() && !ExpectOperator(",")) break;
      if (current().type == TokenType::kBlockEnd || AtOperator(")") ||
          (!end_name.empty() && AtName(end_name))) {
        break;
      }
      target.parts.push_back(ParseSimpleTarget(with_namespace));
      if (!AtOperator(",")) break;
      target.is_tuple = true;
    }
    if (failed() || target.is_tuple) return target;
    if (target.parts.empty()) {
      FailExpected("a name to assign to");
      return target;
    }
    Target only = std::move(target.parts[0]);
    return only;
  }

  Target ParseSimpleTarget(bool with_namespace) {
    Target target;
    target.offset = current().offset;
    if (SkipOperator("(")) {
      Nested nested(this);
      if (failed()) return target;
      target = ParseTarget("", false);
      if (!failed()) ExpectOperator(")");
      return target;
    }
    const std::string name = ExpectName();
    CheckAssignable(target.offset, name);
    if (failed()) return target;
    target.name = Intern(name);
    if (with_namespace && SkipOperator(".")) target.attribute = ExpectName();
    return target;
  }

  int loop_depth_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Template>> Parse(std::string source, int nesting_max) {
  uint32_t error_offset = 0;
  auto tokens = Tokenize(source, &error_offset);
  if (!tokens.ok()) {
    return InvalidArgument(DescribePosition(source, error_offset) + ": " +
                           Message(tokens.status()));
  }
  Parser parser(std::move(tokens).value(), nesting_max);
  auto result = std::make_unique<Template>();
  result->body = parser.ParseTemplate();
  if (parser.failed()) {
    return InvalidArgument(DescribePosition(source, parser.error_offset()) + ": " + parser.error());
  }
  result->loop_name = parser.Intern("loop");
  result->caller_name = parser.Intern("caller");
  result->varargs_name = parser.Intern("varargs");
  result->kwargs_name = parser.Intern("kwargs");
  result->names = parser.TakeNames();
  result->source = std::move(source);
  return std::unique_ptr<const Template>(std::move(result));
}

}  // namespace sluice::engine::jinja
