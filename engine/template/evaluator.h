#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "boost/json.hpp"
#include "engine/template/ast.h"
#include "engine/template/value/runtime.h"

namespace sluice::engine::jinja {

// The variables set in one block; names not here are looked for in the enclosing blocks, then
// globally.
struct Scope {
  Scope* parent = nullptr;
  bool captured = false;  // a macro refers to it: it lives until the rendering ends
  std::vector<std::pair<int, Value>> variables;

  Value* Find(int name);
  void Set(int name, Value value);
};

// How a block ended.
enum class Flow { kNormal, kBreak, kContinue };

// One rendering of one template. Used by one thread, once.
class Evaluator {
 public:
  Evaluator(const Template& source, const TemplateLimits& limits);

  absl::StatusOr<std::string> Render(const boost::json::object& variables);

  // For the loop object and macro values, which call back.
  Runtime& runtime() { return runtime_; }
  Scope* PushScope(Scope* parent);
  void PopScope();
  Value Evaluate(const Expr& expr, Scope* scope);
  void Assign(const Target& target, const Value& value, Scope* scope);
  // Runs a for statement over `items`, as loop(items) in a recursive one does.
  void RunLoop(const Statement& loop, const Value& items, Scope* scope, int64_t depth0,
               std::string* out);
  Value CallMacro(const MacroDefinition& macro, Scope* scope, Arguments& arguments);

 private:
  class DepthGuard;

  bool LoadGlobals(const boost::json::object& variables);
  Value FromJson(const boost::json::value& json, int depth);
  Value Lookup(const Expr& name, Scope* scope);

  // evaluator_expressions.cc
  Value EvaluateSequence(const Expr& expr, Scope* scope);
  Value EvaluateDict(const Expr& expr, Scope* scope);
  Value EvaluateSlice(const Expr& expr, Scope* scope);
  Value EvaluateConcat(const Expr& expr, Scope* scope);
  Value EvaluateCompare(const Expr& expr, Scope* scope);
  Value EvaluateConditional(const Expr& expr, Scope* scope);
  Value EvaluateFilter(const Expr& expr, Scope* scope);
  Value EvaluateTest(const Expr& expr, Scope* scope);
  Value EvaluateCall(const Expr& expr, Scope* scope, const Value* caller);
  Value Call(const Value& callee, Arguments& arguments);
  bool EvaluateArguments(const CallArguments& source, Scope* scope, Arguments* out);
  bool EvaluateStars(const CallArguments& source, Scope* scope, Arguments* out);

  // evaluator_statements.cc
  Flow RunBlock(const Block& block, Scope* scope, std::string* out);
  Flow RunStatement(const Statement& statement, Scope* scope, std::string* out);
  Flow RunIf(const Statement& statement, Scope* scope, std::string* out);
  Flow RunWith(const Statement& statement, Scope* scope, std::string* out);
  Flow RunCapture(const Statement& statement, Scope* scope, std::string* out);
  void RunCallBlock(const Statement& statement, Scope* scope, std::string* out);
  void BindParameters(const MacroDefinition& macro, Scope* scope, Arguments& arguments);
  Value MakeMacro(const MacroDefinition& macro, Scope* scope);
  void Write(std::string_view text, std::string* out);

  const Template& template_;
  Runtime runtime_;
  std::vector<Value> globals_;                  // by name; undefined for those without one
  std::vector<std::unique_ptr<Scope>> scopes_;  // those of the blocks being run, innermost last
  std::vector<std::unique_ptr<Scope>> kept_scopes_;  // captured ones whose block has ended
  const Value* captured_ = nullptr;                  // what kCaptured stands for
  int depth_ = 0;                                    // of nested evaluations
  int call_depth_ = 0;                               // of nested macro and loop calls
};

}  // namespace sluice::engine::jinja
