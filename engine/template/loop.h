#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/template/evaluator.h"

namespace sluice::engine::jinja {

// The items of one run of a for statement, and its variable `loop`. The statement's condition is
// tried on each item as it is reached, since the body may change what the condition sees.
class ForLoop : public Loop, public std::enable_shared_from_this<ForLoop> {
 public:
  ForLoop(Evaluator* evaluator, const Statement* statement, Scope* scope, int64_t depth0)
      : evaluator_(evaluator), statement_(statement), scope_(scope), depth0_(depth0) {}

  bool Start(const Value& items);
  // Moves to the next item; false when there is none.
  bool Next(Value* item);
  // Lets go of all values: a loop object that outlives its loop holds none.
  void Finish();

  Value Attribute(Runtime& runtime, std::string_view name) override;
  Value Call(Runtime& runtime, Arguments& arguments) override;

  // loop.cycle(...) and loop.changed(...).
  Value Cycle(Runtime& runtime, const Arguments& arguments) const;
  Value Changed(Runtime& runtime, const Arguments& arguments);

 private:
  bool Pull(Value* item);
  bool Peek();
  int64_t Length();

  Evaluator* evaluator_;
  const Statement* statement_;
  Scope* scope_;
  const int64_t depth0_;
  std::vector<Value> items_;
  size_t next_ = 0;
  bool filtered_ = false;
  std::optional<Value> after_;
  Value before_, current_;
  int64_t index0_ = -1;
  std::optional<int64_t> length_;
  std::optional<std::vector<Value>> changed_;
  bool finished_ = false;
};

}  // namespace sluice::engine::jinja
