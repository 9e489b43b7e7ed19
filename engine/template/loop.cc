#include "engine/template/loop.h"

#include <utility>

namespace sluice::engine::jinja {
namespace {

// loop.cycle or loop.changed as a value of its own.
class LoopFunction : public Callable {
 public:
  LoopFunction(std::shared_ptr<ForLoop> loop, bool cycle) : loop_(std::move(loop)), cycle_(cycle) {}
  Value Call(Runtime& runtime, Arguments& arguments) const override {
    return cycle_ ? loop_->Cycle(runtime, arguments) : loop_->Changed(runtime, arguments);
  }
  std::string TypeName() const override { return "method"; }
  std::string Name() const override { return cycle_ ? "cycle" : "changed"; }

 private:
  std::shared_ptr<ForLoop> loop_;
  bool cycle_;
};

}  // namespace

bool ForLoop::Start(const Value& items) {
  filtered_ = statement_->exprs[1] != nullptr;
  return Iterate(evaluator_->runtime(), items, &items_);
}

bool ForLoop::Pull(Value* item) {
  while (next_ < items_.size() && evaluator_->runtime().ok()) {
    *item = std::move(items_[next_++]);
    if (!filtered_) return true;
    Scope* scope = evaluator_->PushScope(scope_);
    evaluator_->Assign(statement_->targets[0], *item, scope);
    const bool passes = Truth(evaluator_->Evaluate(*statement_->exprs[1], scope));
    evaluator_->PopScope();
    if (passes) return evaluator_->runtime().ok();
  }
  return false;
}

bool ForLoop::Next(Value* item) {
  if (after_) {
    *item = std::move(*after_);
    after_.reset();
  } else if (!Pull(item)) {
    return false;
  }
  ++index0_;
  before_ = std::exchange(current_, *item);
  return true;
}

bool ForLoop::Peek() {
  Value item;
  if (!after_ && Pull(&item)) after_ = std::move(item);
  return after_.has_value();
}

int64_t ForLoop::Length() {
  if (length_) return *length_;
  const int64_t seen = index0_ + 1 + (after_ ? 1 : 0);
  if (filtered_) {
    std::vector<Value> rest;
    Value item;
    while (Pull(&item)) rest.push_back(std::move(item));
    items_ = std::move(rest);
    next_ = 0;
    filtered_ = false;
  }
  length_ = seen + static_cast<int64_t>(items_.size() - next_);
  return *length_;
}

void ForLoop::Finish() {
  if (!length_) length_ = index0_ + 1;
  finished_ = true;
  items_.clear();
  next_ = 0;
  after_.reset();
  before_ = Value();
  current_ = Value();
  changed_.reset();
}

Value ForLoop::Attribute(Runtime& runtime, std::string_view name) {
  if (name == "index") return Value(index0_ + 1);
  if (name == "index0") return Value(index0_);
  if (name == "first") return Value(index0_ == 0);
  if (name == "last") return Value(!Peek());
  if (name == "length") return Value(Length());
  if (name == "revindex") return Value(Length() - index0_);
  if (name == "revindex0") return Value(Length() - index0_ - 1);
  if (name == "depth") return Value(depth0_ + 1);
  if (name == "depth0") return Value(depth0_);
  if (name == "previtem") {
    return index0_ <= 0 ? Runtime::MakeUndefined("there is no previous item") : before_;
  }
  if (name == "nextitem") return Peek() ? *after_ : Runtime::MakeUndefined("there is no next item");
  if (name == "cycle" || name == "changed") {
    return Value(CallablePtr(std::make_shared<LoopFunction>(shared_from_this(), name == "cycle")));
  }
  return runtime.MakeUndefined("'LoopContext object' has no attribute '" + std::string(name) + "'");
}

Value ForLoop::Cycle(Runtime& runtime, const Arguments& arguments) const {
  if (arguments.positional.empty()) return runtime.Fail("no items for cycling given");
  const auto count = static_cast<int64_t>(arguments.positional.size());
  return arguments.positional[static_cast<size_t>(((index0_ % count) + count) % count)];
}

Value ForLoop::Changed(Runtime& runtime, const Arguments& arguments) {
  bool same = changed_ && changed_->size() == arguments.positional.size();
  for (size_t i = 0; same && i < changed_->size(); ++i) {
    same = Equal(runtime, (*changed_)[i], arguments.positional[i]);
  }
  if (!same && !finished_) changed_ = arguments.positional;
  return Value(!same);
}

Value ForLoop::Call(Runtime& runtime, Arguments& arguments) {
  // Its scope may be gone with the block that held it.
  if (finished_) return runtime.Fail("loop() is called after its loop has ended");
  if (!statement_->recursive) {
    return runtime.Fail("the loop must have the 'recursive' marker to be called recursively");
  }
  if (arguments.positional.size() != 1 || !arguments.named.empty()) {
    return runtime.Fail("loop() takes exactly one argument, what to iterate");
  }
  std::string out;
  evaluator_->RunLoop(*statement_, arguments.positional[0], scope_, depth0_ + 1, &out);
  return runtime.MakeText(std::move(out));
}

}  // namespace sluice::engine::jinja
