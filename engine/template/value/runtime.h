#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/template/value/limits.h"
#include "engine/template/value/value.h"

namespace sluice::engine::jinja {

// The arguments of one call of a filter, test, method, function or macro.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// What one rendering has left to spend, its first error, and the factories of its values.
// After the first failure every function still returns some value, and nothing it computes matters:
// callers look at ok() where they loop, and at the end.
class Runtime {
 public:
  explicit Runtime(const TemplateLimits& limits) : limits_(limits) {}
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  bool ok() const { return error_.ok(); }
  const absl::Status& error() const { return error_; }
  // Byte offset in the source of what is being evaluated; of the failure, once there is one.
  uint32_t position() const { return position_; }
  void set_position(uint32_t offset) {
    if (ok()) position_ = offset;
  }

  // Fails with InvalidArgument: the template did or raised something wrong. Returns undefined.
  Value Fail(std::string_view message);
  // Fails with ResourceExhausted.
  Value Exhausted(std::string_view message);

  // Spends work; false when there is none left.
  bool Charge(int64_t units);
  // Spends the work of copying so many bytes.
  bool ChargeBytes(size_t bytes) { return Charge(static_cast<int64_t>(bytes / 64) + 1); }
  // False, and ResourceExhausted, when one value of so many bytes may not exist. Asked before
  // making it.
  bool MayHold(size_t bytes);

  Value MakeText(std::string text, bool escaped = false);
  Value MakeText(std::string_view text) { return MakeText(std::string(text)); }
  Value MakeList(std::vector<Value> items, List::Kind kind = List::Kind::kList);
  Value MakeDict(Dict dict);
  NamespacePtr MakeNamespace();
  // What a filter gives that is a generator in Python, and so computes when it is walked: `items`,
  // and then, if there was a failure of the template's making, that failure, which is forgotten
  // until then.
  Value MakeGenerator(std::vector<Value> items);
  static Value MakeUndefined(std::string problem);

  const TemplateLimits& limits() const { return limits_; }

 private:
  const TemplateLimits limits_;
  int64_t work_ = 0;
  uint32_t position_ = 0;
  absl::Status error_;
  // Namespaces may hold each other in rings: they are emptied at the end, so that nothing leaks.
  std::vector<NamespacePtr> namespaces_;
};

// What a template can call.
struct Callable {
  virtual ~Callable() = default;
  virtual Value Call(Runtime& runtime, Arguments& arguments) const = 0;
  virtual std::string TypeName() const { return "function"; }
  virtual std::string Name() const { return ""; }
  // callable.name; false when it has no such attribute.
  virtual bool Attribute(Runtime&, std::string_view /*name*/, Value* /*out*/) const {
    return false;
  }

  int depth = 1;  // levels of values that it holds, as Value::Depth counts them
};

// The variable `loop` of a for statement.
class Loop {
 public:
  virtual ~Loop() = default;
  // Undefined when loops have no such attribute.
  virtual Value Attribute(Runtime& runtime, std::string_view name) = 0;
  virtual Value Call(Runtime& runtime, Arguments& arguments) = 0;
};

// The deepest nesting of lists and dicts that a rendering may build or be given.
constexpr int kValueDepthMax = 256;

}  // namespace sluice::engine::jinja
