#include <algorithm>

#include "engine/template/depth_guard.h"
#include "engine/template/evaluator.h"
#include "engine/template/loop.h"
#include "engine/template/value/print.h"

namespace sluice::engine::jinja {
namespace {

// A macro with the scope it was defined in, or the body of a call block.
class MacroValue : public Callable {
 public:
  MacroValue(Evaluator* evaluator, const MacroDefinition* macro, Scope* scope)
      : evaluator_(evaluator), macro_(macro), scope_(scope) {}
  Value Call(Runtime&, Arguments& arguments) const override {
    return evaluator_->CallMacro(*macro_, scope_, arguments);
  }
  std::string TypeName() const override { return "Macro"; }
  std::string Name() const override { return macro_->name; }
  bool Attribute(Runtime& runtime, std::string_view name, Value* out) const override {
    if (name == "name") {
      *out = runtime.MakeText(macro_->name);
    } else if (name == "arguments") {
      std::vector<Value> names;
      for (const auto& parameter : macro_->parameters) {
        names.push_back(runtime.MakeText(parameter.second));
      }
      *out = runtime.MakeList(std::move(names), List::Kind::kTuple);
    } else if (name == "catch_kwargs" || name == "catch_varargs" || name == "caller") {
      *out = Value(name == "caller"         ? macro_->uses_caller
                   : name == "catch_kwargs" ? macro_->uses_kwargs
                                            : macro_->uses_varargs);
    } else {
      return false;
    }
    return true;
  }

 private:
  Evaluator* evaluator_;
  const MacroDefinition* macro_;
  Scope* scope_;
};

}  // namespace

void Evaluator::Write(std::string_view text, std::string* out) {
  if (runtime_.MayHold(out->size() + text.size()) && runtime_.ChargeBytes(text.size())) {
    out->append(text);
  }
}

Flow Evaluator::RunBlock(const Block& block, Scope* scope, std::string* out) {
  for (const auto& statement : block) {
    if (!runtime_.ok()) break;
    const Flow flow = RunStatement(*statement, scope, out);
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Flow Evaluator::RunStatement(const Statement& statement, Scope* scope, std::string* out) {
  DepthGuard guard(this);
  runtime_.set_position(statement.offset);
  if (!runtime_.Charge(1)) return Flow::kNormal;
  switch (statement.kind) {
    case StatementKind::kData:
      Write(statement.text, out);
      return Flow::kNormal;
    case StatementKind::kOutput:
      AppendStr(runtime_, Evaluate(*statement.exprs[0], scope), out);
      return Flow::kNormal;
    case StatementKind::kIf:
      return RunIf(statement, scope, out);
    case StatementKind::kFor:
      RunLoop(statement, Evaluate(*statement.exprs[0], scope), scope, 0, out);
      return Flow::kNormal;
    case StatementKind::kSet: {
      const Value value = Evaluate(*statement.exprs[0], scope);
      runtime_.set_position(statement.offset);
      Assign(statement.targets[0], value, scope);
      return Flow::kNormal;
    }
    case StatementKind::kSetBlock:
    case StatementKind::kFilterBlock:
      return RunCapture(statement, scope, out);
    case StatementKind::kWith:
    case StatementKind::kScope:
      return RunWith(statement, scope, out);
    case StatementKind::kMacro:
      scope->Set(statement.name, MakeMacro(statement.macro, scope));
      return Flow::kNormal;
    case StatementKind::kCallBlock:
      RunCallBlock(statement, scope, out);
      return Flow::kNormal;
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNormal;
}

Flow Evaluator::RunIf(const Statement& statement, Scope* scope, std::string* out) {
  for (size_t i = 0; i < statement.exprs.size(); ++i) {
    const bool taken = Truth(Evaluate(*statement.exprs[i], scope));
    if (!runtime_.ok()) return Flow::kNormal;
    if (taken) return RunBlock(statement.blocks[i], scope, out);
  }
  if (statement.blocks.size() == statement.exprs.size()) return Flow::kNormal;
  return RunBlock(statement.blocks.back(), scope, out);
}

void Evaluator::RunLoop(const Statement& statement, const Value& items, Scope* scope,
                        int64_t depth0, std::string* out) {
  if (!runtime_.ok()) return;
  if (depth0 >= runtime_.limits().recursion_max) {
    runtime_.Exhausted("loop() recurses deeper than " +
                       std::to_string(runtime_.limits().recursion_max) + " levels");
    return;
  }
  auto loop = std::make_shared<ForLoop>(this, &statement, scope, depth0);
  if (!loop->Start(items)) return;
  bool run_else = true;
  Scope* body_scope = PushScope(scope);
  for (Value item; runtime_.ok() && loop->Next(&item);) {
    runtime_.set_position(statement.offset);
    if (body_scope->captured) {
      PopScope();
      body_scope = PushScope(scope);
    }
    body_scope->variables.clear();
    body_scope->Set(template_.loop_name, Value(LoopPtr(loop)));
    Assign(statement.targets[0], item, body_scope);
    const Flow flow = RunBlock(statement.blocks[0], body_scope, out);
    if (flow == Flow::kBreak) break;
    // As in Jinja2, the else block is skipped once a pass has reached the end of the body.
    if (flow == Flow::kNormal) run_else = false;
  }
  PopScope();
  loop->Finish();
  if (!run_else || !runtime_.ok()) return;
  RunBlock(statement.blocks[1], PushScope(scope), out);
  PopScope();
}

Flow Evaluator::RunWith(const Statement& statement, Scope* scope, std::string* out) {
  Scope* inner = PushScope(scope);
  for (size_t i = 0; i < statement.targets.size() && runtime_.ok(); ++i) {
    Assign(statement.targets[i], Evaluate(*statement.exprs[i], scope), inner);
  }
  const Flow flow = RunBlock(statement.blocks[0], inner, out);
  PopScope();
  return flow;
}

// A set or filter block: its text, then the filters over it.
Flow Evaluator::RunCapture(const Statement& statement, Scope* scope, std::string* out) {
  std::string text;
  const Flow flow = RunBlock(statement.blocks[0], PushScope(scope), &text);
  PopScope();
  if (flow != Flow::kNormal || !runtime_.ok()) return flow;
  const Value captured = runtime_.MakeText(std::move(text));
  const Value* outer = std::exchange(captured_, &captured);
  const Value value = Evaluate(*statement.exprs[0], scope);
  captured_ = outer;
  if (statement.kind == StatementKind::kFilterBlock) {
    AppendStr(runtime_, value, out);
  } else if (runtime_.ok()) {
    Assign(statement.targets[0], value, scope);
  }
  return Flow::kNormal;
}

void Evaluator::Assign(const Target& target, const Value& value, Scope* scope) {
  if (!runtime_.ok()) return;
  if (target.is_tuple) {
    std::vector<Value> items;
    if (!Iterate(runtime_, value, &items)) return;
    if (items.size() != target.parts.size()) {
      runtime_.Fail("can't unpack " + std::to_string(items.size()) + " values into " +
                    std::to_string(target.parts.size()) + " names");
      return;
    }
    for (size_t i = 0; i < items.size(); ++i) Assign(target.parts[i], items[i], scope);
    return;
  }
  if (target.attribute.empty()) return scope->Set(target.name, value);
  Expr name;
  name.name = target.name;
  name.text = template_.names[static_cast<size_t>(target.name)];
  Namespace* ns = Lookup(name, scope).name_space();
  if (!ns) {
    runtime_.Fail("cannot assign attribute on non-namespace object '" + name.text + "'");
    return;
  }
  ns->attributes.Set(Value::Text(target.attribute), value);
}

// ---- macros

Value Evaluator::MakeMacro(const MacroDefinition& macro, Scope* scope) {
  for (Scope* one = scope; one && !one->captured; one = one->parent) one->captured = true;
  return Value(CallablePtr(std::make_shared<MacroValue>(this, &macro, scope)));
}

void Evaluator::RunCallBlock(const Statement& statement, Scope* scope, std::string* out) {
  const Value caller = MakeMacro(statement.macro, scope);
  AppendStr(runtime_, EvaluateCall(*statement.exprs[0], scope, &caller), out);
}

Value Evaluator::CallMacro(const MacroDefinition& macro, Scope* scope, Arguments& arguments) {
  const int depth_max = runtime_.limits().recursion_max;
  if (call_depth_ >= depth_max) {
    return runtime_.Exhausted("macros call each other deeper than " + std::to_string(depth_max) +
                              " levels");
  }
  ++call_depth_;
  Scope* inner = PushScope(scope);
  std::string out;
  BindParameters(macro, inner, arguments);
  if (runtime_.ok()) RunBlock(macro.body, inner, &out);
  PopScope();
  --call_depth_;
  return runtime_.ok() ? runtime_.MakeText(std::move(out)) : Value();
}

void Evaluator::BindParameters(const MacroDefinition& macro, Scope* scope, Arguments& arguments) {
  const size_t count = macro.parameters.size();
  const size_t first_default = count - macro.defaults.size();
  const auto take = [&](std::string_view name, Value* out) {
    const auto it = std::find_if(arguments.named.begin(), arguments.named.end(),
                                 [&](const auto& one) { return one.first == name; });
    if (it == arguments.named.end()) return false;
    *out = std::move(it->second);
    arguments.named.erase(it);
    return true;
  };
  // A default sees the parameters before it; its own name and those after it hide outer names.
  for (size_t i = first_default; i < count; ++i) {
    const auto& [name, text] = macro.parameters[i];
    scope->Set(name, Runtime::MakeUndefined("parameter '" + text + "' was not provided"));
  }
  bool caller_bound = false;
  Value named;
  for (size_t i = 0; i < count && runtime_.ok(); ++i) {
    const auto& [name, text] = macro.parameters[i];
    caller_bound |= text == "caller";
    if (i < arguments.positional.size()) {
      scope->Set(name, arguments.positional[i]);
    } else if (take(text, &named)) {
      scope->Set(name, std::move(named));
    } else if (i >= first_default) {
      scope->Set(name, Evaluate(*macro.defaults[i - first_default], scope));
    } else {
      scope->Set(name, Runtime::MakeUndefined("parameter '" + text + "' was not provided"));
    }
  }
  if (macro.uses_caller && !caller_bound) {
    if (!take("caller", &named)) named = Runtime::MakeUndefined("no caller defined");
    scope->Set(template_.caller_name, std::move(named));
  }
  if (macro.uses_kwargs) {
    Dict rest;
    for (auto& [name, value] : arguments.named) rest.Set(Value::Text(name), std::move(value));
    scope->Set(template_.kwargs_name, runtime_.MakeDict(std::move(rest)));
  } else if (!arguments.named.empty()) {
    runtime_.Fail("macro '" + macro.name + "' takes no keyword argument '" +
                  arguments.named[0].first + "'");
  }
  if (macro.uses_varargs) {
    const size_t used = std::min(count, arguments.positional.size());
    std::vector<Value> rest(arguments.positional.begin() + static_cast<int64_t>(used),
                            arguments.positional.end());
    scope->Set(template_.varargs_name, runtime_.MakeList(std::move(rest), List::Kind::kTuple));
  } else if (arguments.positional.size() > count) {
    runtime_.Fail("macro '" + macro.name + "' takes not more than " + std::to_string(count) +
                  " argument(s)");
  }
}

}  // namespace sluice::engine::jinja
