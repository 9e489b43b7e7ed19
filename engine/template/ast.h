#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/template/builtins/registry.h"
#include "engine/template/value/operations.h"
#include "engine/template/value/value.h"

// The parsed template. Variable names are numbers: indices into Template::names.
namespace sluice::engine::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<const Expr>;

struct CallArguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star;       // *args
  ExprPtr star_star;  // **kwargs
};

enum class ExprKind {
  kConstant,     // constant
  kName,         // name
  kCaptured,     // the text that a set or filter block has captured
  kTuple,        // operands
  kList,         // operands
  kDict,         // operands: key, value, key, value, ...
  kAttribute,    // operands[0].text
  kItem,         // operands[0][operands[1]]
  kSlice,        // operands[0][operands[1]:operands[2]:operands[3]]; absent ones are null
  kCall,         // operands[0](arguments)
  kFilter,       // operands[0] | text(arguments)
  kTest,         // operands[0] is text(arguments)
  kNot,          // operands[0]
  kNegate,       // operands[0]
  kPlus,         // operands[0]
  kAnd,          // operands[0] and operands[1]
  kOr,           // operands[0] or operands[1]
  kConditional,  // operands[1] if operands[0] else operands[2]; the last may be null
  kConcat,       // operands[0] ~ operands[1] ~ ...
  kCompare,      // operands[0] comparisons[0] operands[1] comparisons[1] operands[2] ...
  kArithmetic,   // operands[0] arithmetic operands[1]
};

struct Expr {
  ExprKind kind = ExprKind::kConstant;
  uint32_t offset = 0;
  int depth = 1;  // of the tree below, this included
  int name = -1;
  Arithmetic arithmetic = Arithmetic::kAdd;
  std::string text;
  Value constant;
  std::vector<ExprPtr> operands;
  std::vector<Comparison> comparisons;
  CallArguments arguments;
  Filter filter = nullptr;  // null when no such filter exists, which only its use reports
  Test test = nullptr;
};

// What an assignment writes to: a name, an attribute of a namespace, or several of these.
struct Target {
  uint32_t offset = 0;
  int name = -1;
  std::string attribute;      // not empty: of the namespace `name`
  std::vector<Target> parts;  // not empty, or is_tuple: unpacks
  bool is_tuple = false;
};

struct Statement;
using Block = std::vector<std::unique_ptr<const Statement>>;

// A macro, or the body of a call block.
struct MacroDefinition {
  std::string name;
  std::vector<std::pair<int, std::string>> parameters;
  std::vector<ExprPtr> defaults;  // of the last parameters
  Block body;
  bool uses_varargs = false, uses_kwargs = false, uses_caller = false;
};

enum class StatementKind {
  kData,         // text
  kOutput,       // exprs[0]
  kIf,           // exprs[i] guards blocks[i]; one more block is the else
  kFor,          // target in exprs[0] (if exprs[1]): blocks[0], else blocks[1]
  kSet,          // target = exprs[0]
  kSetBlock,     // target = exprs[0] (over kCaptured) of blocks[0]
  kWith,         // targets = exprs: blocks[0]
  kScope,        // blocks[0], in a scope of its own
  kFilterBlock,  // exprs[0] (over kCaptured) of blocks[0]
  kMacro,        // name = macro
  kCallBlock,    // exprs[0], a call, with macro as its caller
  kBreak,
  kContinue,
};

struct Statement {
  StatementKind kind = StatementKind::kData;
  uint32_t offset = 0;
  std::string text;
  int name = -1;
  bool recursive = false;
  std::vector<Target> targets;
  std::vector<ExprPtr> exprs;
  std::vector<Block> blocks;
  MacroDefinition macro;
};

struct Template {
  std::string source;  // normalised: offsets count in it
  std::vector<std::string> names;
  int loop_name = -1, caller_name = -1, varargs_name = -1, kwargs_name = -1;
  Block body;
};

}  // namespace sluice::engine::jinja
