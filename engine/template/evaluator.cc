#include "engine/template/evaluator.h"

#include "engine/template/depth_guard.h"
#include "engine/template/lexer.h"
#include "engine/template/value/print.h"

namespace sluice::engine::jinja {

Value* Scope::Find(int name) {
  for (auto& [key, value] : variables) {
    if (key == name) return &value;
  }
  return nullptr;
}

void Scope::Set(int name, Value value) {
  if (Value* found = Find(name)) {
    *found = std::move(value);
  } else {
    variables.emplace_back(name, std::move(value));
  }
}

Evaluator::Evaluator(const Template& source, const TemplateLimits& limits)
    : template_(source), runtime_(limits) {}

absl::StatusOr<std::string> Evaluator::Render(const boost::json::object& variables) {
  std::string out;
  if (LoadGlobals(variables)) {
    RunBlock(template_.body, PushScope(nullptr), &out);
    PopScope();
  }
  if (runtime_.ok()) return out;
  const std::string message =
      DescribePosition(template_.source, runtime_.position()) + ": " + Message(runtime_.error());
  return absl::Status(runtime_.error().code(), ToAbsl(message));
}

Scope* Evaluator::PushScope(Scope* parent) {
  scopes_.push_back(std::make_unique<Scope>());
  scopes_.back()->parent = parent;
  return scopes_.back().get();
}

void Evaluator::PopScope() {
  if (scopes_.back()->captured) kept_scopes_.push_back(std::move(scopes_.back()));
  scopes_.pop_back();
}

// Only what the template names is converted.
bool Evaluator::LoadGlobals(const boost::json::object& variables) {
  globals_.resize(template_.names.size());
  for (size_t i = 0; i < globals_.size() && runtime_.ok(); ++i) {
    const std::string& name = template_.names[i];
    const boost::json::value* json = variables.if_contains(boost::json::string_view(name));
    globals_[i] = json ? FromJson(*json, 1) : FindFunction(name);
  }
  return runtime_.ok();
}

Value Evaluator::FromJson(const boost::json::value& json, int depth) {
  if (depth > kValueDepthMax) {
    return runtime_.Exhausted("a variable nests deeper than " + std::to_string(kValueDepthMax) +
                              " levels");
  }
  switch (json.kind()) {
    case boost::json::kind::null:
      return None{};
    case boost::json::kind::bool_:
      return Value(json.get_bool());
    case boost::json::kind::int64:
      return Value(static_cast<int64_t>(json.get_int64()));
    case boost::json::kind::uint64: {
      // Beyond 64 signed bits an integer is kept as the nearest double.
      const uint64_t number = json.get_uint64();
      if (number > static_cast<uint64_t>(INT64_MAX)) return Value(static_cast<double>(number));
      return Value(static_cast<int64_t>(number));
    }
    case boost::json::kind::double_:
      return Value(json.get_double());
    case boost::json::kind::string: {
      const auto& text = json.get_string();
      return runtime_.MakeText(std::string_view(text.data(), text.size()));
    }
    case boost::json::kind::array: {
      std::vector<Value> items;
      items.reserve(json.get_array().size());
      for (const auto& item : json.get_array()) {
        if (!runtime_.ok()) break;
        items.push_back(FromJson(item, depth + 1));
      }
      return runtime_.MakeList(std::move(items));
    }
    case boost::json::kind::object: {
      Dict dict;
      for (const auto& entry : json.get_object()) {
        if (!runtime_.ok()) break;
        const auto key = entry.key();
        dict.Set(runtime_.MakeText(std::string_view(key.data(), key.size())),
                 FromJson(entry.value(), depth + 1));
      }
      return runtime_.MakeDict(std::move(dict));
    }
  }
  return None{};
}

Value Evaluator::Lookup(const Expr& name, Scope* scope) {
  for (; scope; scope = scope->parent) {
    if (const Value* value = scope->Find(name.name)) return *value;
  }
  const Value& global = globals_[static_cast<size_t>(name.name)];
  if (!global.is_undefined()) return global;
  return Runtime::MakeUndefined("'" + name.text + "' is undefined");
}

}  // namespace sluice::engine::jinja
