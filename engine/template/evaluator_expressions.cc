#include "engine/template/depth_guard.h"
#include "engine/template/evaluator.h"
#include "engine/template/value/print.h"

namespace sluice::engine::jinja {

Value Evaluator::Evaluate(const Expr& expr, Scope* scope) {
  DepthGuard guard(this);
  runtime_.set_position(expr.offset);
  if (!runtime_.Charge(1)) return Value();
  const auto operand = [&](size_t i) { return Evaluate(*expr.operands[i], scope); };
  switch (expr.kind) {
    case ExprKind::kConstant:
      return expr.constant;
    case ExprKind::kName:
      return Lookup(expr, scope);
    case ExprKind::kCaptured:
      return captured_ ? *captured_ : Value();
    case ExprKind::kTuple:
    case ExprKind::kList:
      return EvaluateSequence(expr, scope);
    case ExprKind::kDict:
      return EvaluateDict(expr, scope);
    case ExprKind::kSlice:
      return EvaluateSlice(expr, scope);
    case ExprKind::kConcat:
      return EvaluateConcat(expr, scope);
    case ExprKind::kCompare:
      return EvaluateCompare(expr, scope);
    case ExprKind::kConditional:
      return EvaluateConditional(expr, scope);
    case ExprKind::kFilter:
      return EvaluateFilter(expr, scope);
    case ExprKind::kTest:
      return EvaluateTest(expr, scope);
    case ExprKind::kCall:
      return EvaluateCall(expr, scope, nullptr);
    case ExprKind::kNot:
      return Value(!Truth(operand(0)));
    case ExprKind::kAnd: {
      const Value left = operand(0);
      return Truth(left) ? operand(1) : left;
    }
    case ExprKind::kOr: {
      const Value left = operand(0);
      return Truth(left) ? left : operand(1);
    }
    default:
      break;
  }
  const Value first = operand(0);
  const Value second = expr.operands.size() > 1 ? operand(1) : Value();
  runtime_.set_position(expr.offset);
  if (!runtime_.ok()) return Value();
  switch (expr.kind) {
    case ExprKind::kAttribute:
      return GetAttribute(runtime_, first, expr.text);
    case ExprKind::kItem:
      return GetItem(runtime_, first, second);
    case ExprKind::kNegate:
      return Negate(runtime_, first);
    case ExprKind::kPlus:
      return Plus(runtime_, first);
    case ExprKind::kArithmetic:
      return Calculate(runtime_, expr.arithmetic, first, second);
    default:
      return Value();
  }
}

Value Evaluator::EvaluateSequence(const Expr& expr, Scope* scope) {
  std::vector<Value> items;
  items.reserve(expr.operands.size());
  for (const ExprPtr& item : expr.operands) {
    if (!runtime_.ok()) return Value();
    items.push_back(Evaluate(*item, scope));
  }
  return runtime_.MakeList(std::move(items),
                           expr.kind == ExprKind::kTuple ? List::Kind::kTuple : List::Kind::kList);
}

Value Evaluator::EvaluateDict(const Expr& expr, Scope* scope) {
  Dict dict;
  for (size_t i = 0; i + 1 < expr.operands.size() && runtime_.ok(); i += 2) {
    const Value key = Evaluate(*expr.operands[i], scope);
    if (!Hashable(key)) return FailUnhashable(runtime_, key);
    dict.Set(key, Evaluate(*expr.operands[i + 1], scope));
  }
  return runtime_.MakeDict(std::move(dict));
}

Value Evaluator::EvaluateSlice(const Expr& expr, Scope* scope) {
  const Value object = Evaluate(*expr.operands[0], scope);
  SliceBounds bounds;
  if (expr.operands[1]) bounds.start = Evaluate(*expr.operands[1], scope);
  if (expr.operands[2]) bounds.stop = Evaluate(*expr.operands[2], scope);
  if (expr.operands[3]) bounds.step = Evaluate(*expr.operands[3], scope);
  runtime_.set_position(expr.offset);
  return runtime_.ok() ? GetSlice(runtime_, object, bounds) : Value();
}

Value Evaluator::EvaluateConcat(const Expr& expr, Scope* scope) {
  std::string text;
  for (const ExprPtr& part : expr.operands) {
    if (!runtime_.ok()) return Value();
    AppendStr(runtime_, Evaluate(*part, scope), &text);
  }
  return runtime_.MakeText(std::move(text));
}

Value Evaluator::EvaluateCompare(const Expr& expr, Scope* scope) {
  Value left = Evaluate(*expr.operands[0], scope);
  for (size_t i = 0; i < expr.comparisons.size(); ++i) {
    Value right = Evaluate(*expr.operands[i + 1], scope);
    runtime_.set_position(expr.offset);
    if (!runtime_.ok()) return Value();
    if (!Compare(runtime_, expr.comparisons[i], left, right)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value Evaluator::EvaluateConditional(const Expr& expr, Scope* scope) {
  if (Truth(Evaluate(*expr.operands[0], scope))) return Evaluate(*expr.operands[1], scope);
  if (expr.operands[2]) return Evaluate(*expr.operands[2], scope);
  return Runtime::MakeUndefined("the inline if-expression evaluated to false and has no else");
}

Value Evaluator::EvaluateFilter(const Expr& expr, Scope* scope) {
  const Value input = Evaluate(*expr.operands[0], scope);
  Arguments arguments;
  if (!EvaluateArguments(expr.arguments, scope, &arguments)) return Value();
  runtime_.set_position(expr.offset);
  if (!expr.filter) return runtime_.Fail("no filter named '" + expr.text + "'");
  return expr.filter(runtime_, input, arguments);
}

Value Evaluator::EvaluateTest(const Expr& expr, Scope* scope) {
  const Value input = Evaluate(*expr.operands[0], scope);
  Arguments arguments;
  if (!EvaluateArguments(expr.arguments, scope, &arguments)) return Value();
  runtime_.set_position(expr.offset);
  if (!expr.test) return runtime_.Fail("no test named '" + expr.text + "'");
  return Value(expr.test(runtime_, input, arguments));
}

Value Evaluator::EvaluateCall(const Expr& expr, Scope* scope, const Value* caller) {
  const Expr& callee = *expr.operands[0];
  Arguments arguments;
  if (callee.kind == ExprKind::kAttribute && !caller) {
    // A method is called without becoming a value first.
    const Value object = Evaluate(*callee.operands[0], scope);
    if (!EvaluateArguments(expr.arguments, scope, &arguments)) return Value();
    runtime_.set_position(callee.offset);
    Value result;
    if (CallMethod(runtime_, object, callee.text, arguments, &result)) return result;
    const Value attribute = GetAttribute(runtime_, object, callee.text);
    return runtime_.ok() ? Call(attribute, arguments) : Value();
  }
  const Value function = Evaluate(callee, scope);
  if (!EvaluateArguments(expr.arguments, scope, &arguments)) return Value();
  if (caller) arguments.named.emplace_back("caller", *caller);
  runtime_.set_position(expr.offset);
  return Call(function, arguments);
}

Value Evaluator::Call(const Value& callee, Arguments& arguments) {
  if (callee.is_undefined()) return FailUndefined(runtime_, callee);
  if (const Callable* callable = callee.callable()) return callable->Call(runtime_, arguments);
  if (Loop* loop = callee.loop()) return loop->Call(runtime_, arguments);
  return runtime_.Fail("'" + callee.TypeName() + "' object is not callable");
}

bool Evaluator::EvaluateArguments(const CallArguments& source, Scope* scope, Arguments* out) {
  for (const ExprPtr& argument : source.positional) {
    out->positional.push_back(Evaluate(*argument, scope));
  }
  for (const auto& [name, argument] : source.named) {
    out->named.emplace_back(name, Evaluate(*argument, scope));
  }
  return EvaluateStars(source, scope, out) && runtime_.ok();
}

bool Evaluator::EvaluateStars(const CallArguments& source, Scope* scope, Arguments* out) {
  if (source.star) {
    std::vector<Value> items;
    if (!Iterate(runtime_, Evaluate(*source.star, scope), &items)) return false;
    out->positional.insert(out->positional.end(), items.begin(), items.end());
  }
  if (!source.star_star) return true;
  const Value named = Evaluate(*source.star_star, scope);
  const Dict* dict = named.dict();
  if (!dict) {
    runtime_.Fail("the argument after ** must be a mapping, not " + named.TypeName());
    return false;
  }
  for (const auto& [key, value] : dict->entries()) {
    if (!key.string()) {
      runtime_.Fail("keywords must be strings");
      return false;
    }
    if (!runtime_.Charge(static_cast<int64_t>(out->named.size()) / 8 + 1)) return false;
    for (const auto& one : out->named) {
      if (one.first == key.string()->text) {
        runtime_.Fail("got multiple values for keyword argument '" + one.first + "'");
        return false;
      }
    }
    out->named.emplace_back(key.string()->text, value);
  }
  return true;
}

}  // namespace sluice::engine::jinja
