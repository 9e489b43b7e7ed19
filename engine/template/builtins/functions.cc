#include <algorithm>
#include <array>
#include <ctime>

#include "engine/template/builtins/parameters.h"
#include "engine/template/builtins/registry.h"
#include "engine/template/value/operations.h"
#include "engine/template/value/print.h"

namespace sluice::engine::jinja {
namespace {

constexpr int64_t kRangeMax = 100'000;  // the sandbox's limit
constexpr size_t kStrftimeFormatMax = 1024;

class NativeFunction : public Callable {
 public:
  using Body = Value (*)(Runtime& runtime, Arguments& arguments);
  NativeFunction(std::string_view name, Body body) : name_(name), body_(body) {}
  Value Call(Runtime& runtime, Arguments& arguments) const override {
    return body_(runtime, arguments);
  }
  std::string Name() const override { return std::string(name_); }

 private:
  std::string_view name_;
  Body body_;
};

int64_t RangeLength(int64_t start, int64_t stop, int64_t step) {
  const __int128 distance =
      step > 0 ? static_cast<__int128>(stop) - start : static_cast<__int128>(start) - stop;
  if (distance <= 0) return 0;
  const __int128 stride = step > 0 ? static_cast<__int128>(step) : -static_cast<__int128>(step);
  return static_cast<int64_t>(std::min<__int128>((distance - 1) / stride + 1, INT64_MAX));
}

Value Range(Runtime& runtime, Arguments& arguments) {
  const size_t count = arguments.positional.size();
  if (count < 1 || count > 3 || !arguments.named.empty()) {
    return runtime.Fail("range() takes 1 to 3 positional arguments");
  }
  int64_t values[3];
  for (size_t i = 0; i < count; ++i) {
    const Value& argument = arguments.positional[i];
    if (argument.is_undefined()) return FailUndefined(runtime, argument);
    if (!argument.ToInteger(&values[i])) {
      return runtime.Fail("'" + argument.TypeName() +
                          "' object cannot be interpreted as an integer");
    }
  }
  auto list = std::make_shared<List>();
  list->kind = List::Kind::kRange;
  list->range_start = count == 1 ? 0 : values[0];
  list->range_stop = count == 1 ? values[0] : values[1];
  list->range_step = count == 3 ? values[2] : 1;
  if (list->range_step == 0) return runtime.Fail("range() arg 3 must not be zero");
  const int64_t length = RangeLength(list->range_start, list->range_stop, list->range_step);
  if (length > kRangeMax) {
    return runtime.Fail("range too big: " + std::to_string(length) + " items, the limit is " +
                        std::to_string(kRangeMax));
  }
  if (!runtime.Charge(length)) return Value();
  list->items.reserve(static_cast<size_t>(length));
  for (int64_t i = 0; i < length; ++i) {
    list->items.push_back(Value(list->range_start + i * list->range_step));
  }
  return Value(ListPtr(std::move(list)));
}

// The entries of dict(...) and namespace(...): one optional mapping or list of pairs, then named
// ones.
bool CollectEntries(Runtime& runtime, std::string_view callee, const Arguments& arguments,
                    Dict* out) {
  if (arguments.positional.size() > 1) {
    runtime.Fail(std::string(callee) + "() takes at most 1 positional argument");
    return false;
  }
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (const Dict* dict = source.dict()) {
      if (!runtime.Charge(static_cast<int64_t>(dict->size()))) return false;
      *out = *dict;
    } else {
      std::vector<Value> pairs, pair;
      if (!Iterate(runtime, source, &pairs)) return false;
      for (const Value& one : pairs) {
        if (!Iterate(runtime, one, &pair)) return false;
        if (pair.size() != 2 || !Hashable(pair[0])) {
          runtime.Fail(std::string(callee) + "() needs pairs of a key and a value");
          return false;
        }
        out->Set(pair[0], pair[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.named) {
    if (!runtime.Charge(1)) return false;
    out->Set(Value::Text(name), value);
  }
  return true;
}

Value MakeDict(Runtime& runtime, Arguments& arguments) {
  Dict dict;
  return CollectEntries(runtime, "dict", arguments, &dict) ? runtime.MakeDict(std::move(dict))
                                                           : Value();
}

Value MakeNamespace(Runtime& runtime, Arguments& arguments) {
  NamespacePtr ns = runtime.MakeNamespace();
  CollectEntries(runtime, "namespace", arguments, &ns->attributes);
  return Value(std::move(ns));
}

Value RaiseException(Runtime& runtime, Arguments& arguments) {
  Parameters parameters(runtime, "raise_exception", arguments, {"message"}, 1);
  return parameters.ok() ? runtime.Fail(ToStr(runtime, *parameters[0])) : Value();
}

Value StrftimeNow(Runtime& runtime, Arguments& arguments) {
  Parameters parameters(runtime, "strftime_now", arguments, {"format"}, 1);
  const std::string format = parameters.ok() ? parameters.Text(0, "") : "";
  if (!parameters.ok()) return Value();
  if (format.size() > kStrftimeFormatMax) {
    return runtime.Fail("strftime_now() takes a format of at most " +
                        std::to_string(kStrftimeFormatMax) + " bytes");
  }
  if (format.empty()) return runtime.MakeText(std::string());
  const std::time_t now = std::time(nullptr);
  std::tm local;
  localtime_r(&now, &local);
  std::string buffer(64 * format.size() + 256, '\0');
  buffer.resize(std::strftime(buffer.data(), buffer.size(), format.c_str(), &local));
  return runtime.MakeText(std::move(buffer));
}

// cycler(...): gives its items in turn, for ever.
class Cycler : public Callable, public std::enable_shared_from_this<Cycler> {
 public:
  explicit Cycler(std::vector<Value> items) : items_(std::move(items)) {
    for (const Value& item : items_) depth = std::max(depth, item.Depth() + 1);
  }
  Value Call(Runtime& runtime, Arguments&) const override {
    return runtime.Fail("'Cycler' object is not callable");
  }
  std::string TypeName() const override { return "Cycler"; }
  bool Attribute(Runtime& runtime, std::string_view name, Value* out) const override {
    if (name == "current") {
      *out = items_[at_];
    } else if (name == "next" || name == "reset") {
      if (depth >= kValueDepthMax) {
        runtime.Exhausted("values nest deeper than " + std::to_string(kValueDepthMax) + " levels");
        return true;
      }
      *out = Value(CallablePtr(std::make_shared<Step>(shared_from_this(), name == "reset")));
    } else {
      return false;
    }
    return true;
  }

 private:
  // cycler.next and cycler.reset.
  class Step : public Callable {
   public:
    Step(std::shared_ptr<const Cycler> cycler, bool resets)
        : cycler_(std::move(cycler)), resets_(resets) {
      depth = cycler_->depth + 1;
    }
    Value Call(Runtime& runtime, Arguments& arguments) const override {
      if (!arguments.positional.empty() || !arguments.named.empty()) {
        return runtime.Fail("cycler." + Name() + "() takes no arguments");
      }
      const Value now = cycler_->items_[cycler_->at_];
      cycler_->at_ = resets_ ? 0 : (cycler_->at_ + 1) % cycler_->items_.size();
      return resets_ ? Value(None{}) : now;
    }
    std::string TypeName() const override { return "method"; }
    std::string Name() const override { return resets_ ? "reset" : "next"; }

   private:
    std::shared_ptr<const Cycler> cycler_;
    bool resets_;
  };

  std::vector<Value> items_;
  mutable size_t at_ = 0;
};

Value MakeCycler(Runtime& runtime, Arguments& arguments) {
  if (!arguments.named.empty()) return runtime.Fail("cycler() takes no named arguments");
  if (arguments.positional.empty()) return runtime.Fail("at least one item has to be provided");
  auto cycler = std::make_shared<Cycler>(std::move(arguments.positional));
  if (cycler->depth > kValueDepthMax) {
    return runtime.Exhausted("values nest deeper than " + std::to_string(kValueDepthMax) +
                             " levels");
  }
  return Value(CallablePtr(std::move(cycler)));
}

class Joiner : public Callable {
 public:
  explicit Joiner(std::string separator) : separator_(std::move(separator)) {}
  Value Call(Runtime& runtime, Arguments& arguments) const override {
    if (!arguments.positional.empty() || !arguments.named.empty()) {
      return runtime.Fail("a joiner takes no arguments");
    }
    const bool first = !used_;
    used_ = true;
    return runtime.MakeText(first ? std::string() : separator_);
  }
  std::string TypeName() const override { return "Joiner"; }

 private:
  std::string separator_;
  mutable bool used_ = false;
};

Value MakeJoiner(Runtime& runtime, Arguments& arguments) {
  Parameters parameters(runtime, "joiner", arguments, {"sep"});
  const std::string separator = parameters.ok() ? parameters.Text(0, ", ") : "";
  if (!parameters.ok()) return Value();
  return Value(CallablePtr(std::make_shared<Joiner>(separator)));
}

}  // namespace

Value FindFunction(std::string_view name) {
  static const auto* const kFunctions = [] {
    const auto make = [](std::string_view function, NativeFunction::Body body) {
      return std::pair<std::string_view, CallablePtr>(
          function, std::make_shared<NativeFunction>(function, body));
    };
    return new std::array<std::pair<std::string_view, CallablePtr>, 7>{
        {make("range", Range), make("dict", MakeDict), make("namespace", MakeNamespace),
         make("raise_exception", RaiseException), make("strftime_now", StrftimeNow),
         make("joiner", MakeJoiner), make("cycler", MakeCycler)}};
  }();
  for (const auto& [key, function] : *kFunctions) {
    if (key == name) return Value(function);
  }
  return Value();
}

}  // namespace sluice::engine::jinja
