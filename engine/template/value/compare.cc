#include <algorithm>
#include <cstring>

#include "engine/template/value/operations.h"

namespace sluice::engine::jinja {
namespace {

// -1, 0, 1; exact also for an int beside a float that can't hold it. 2 when one is not a number.
int CompareNumbers(const Value& a, const Value& b) {
  int64_t i, j;
  if (a.ToInteger(&i) && b.ToInteger(&j)) return i < j ? -1 : i > j;
  const auto wide = [](const Value& value) -> long double {
    int64_t integer;
    if (value.ToInteger(&integer)) return static_cast<long double>(integer);
    return static_cast<long double>(*value.real());
  };
  const long double x = wide(a), y = wide(b);
  if (x < y) return -1;
  if (x > y) return 1;
  return x == y ? 0 : 2;
}

bool ListsEqual(Runtime& runtime, const List& a, const List& b) {
  if (&a == &b) return true;
  if (a.kind != b.kind && !(a.is_tuple() && b.is_tuple())) return false;
  if (a.kind == List::Kind::kIterator || a.items.size() != b.items.size()) return false;
  for (size_t i = 0; i < a.items.size(); ++i) {
    if (!Equal(runtime, a.items[i], b.items[i]) || !runtime.ok()) return false;
  }
  return true;
}

bool DictsEqual(Runtime& runtime, const Dict& a, const Dict& b) {
  if (&a == &b) return true;
  if (a.size() != b.size()) return false;
  for (const auto& [key, value] : a.entries()) {
    const Value* other = b.Find(key);
    if (!other || !Equal(runtime, value, *other) || !runtime.ok()) return false;
  }
  return true;
}

void FailOrder(Runtime& runtime, const char* op, const Value& a, const Value& b) {
  runtime.Fail(std::string("'") + op + "' not supported between instances of '" + a.TypeName() +
               "' and '" + b.TypeName() + "'");
}

// One of < <= > >=, on lists by their first difference, as Python orders them.
bool Ordered(Runtime& runtime, Comparison op, const Value& a, const Value& b) {
  const char* symbol = op == Comparison::kLt   ? "<"
                       : op == Comparison::kLe ? "<="
                       : op == Comparison::kGt ? ">"
                                               : ">=";
  const auto holds = [op](int order) {
    switch (op) {
      case Comparison::kLt:
        return order == -1;
      case Comparison::kLe:
        return order == -1 || order == 0;
      case Comparison::kGt:
        return order == 1;
      default:
        return order == 1 || order == 0;
    }
  };
  if (!runtime.Charge(1)) return false;
  if (a.is_undefined() || b.is_undefined()) {
    FailUndefined(runtime, a.is_undefined() ? a : b);
    return false;
  }
  if (a.is_number() && b.is_number()) return holds(CompareNumbers(a, b));
  if (a.string() && b.string()) {
    runtime.ChargeBytes(std::min(a.string()->text.size(), b.string()->text.size()));
    const int order = a.string()->text.compare(b.string()->text);
    return holds(order < 0 ? -1 : order > 0);
  }
  const List *x = a.list(), *y = b.list();
  const bool lists = x && y && x->kind == List::Kind::kList && y->kind == List::Kind::kList;
  if (!lists && !(x && y && x->is_tuple() && y->is_tuple())) {
    FailOrder(runtime, symbol, a, b);
    return false;
  }
  for (size_t i = 0; i < std::min(x->items.size(), y->items.size()); ++i) {
    if (!runtime.ok()) return false;
    if (Equal(runtime, x->items[i], y->items[i])) continue;
    return Ordered(runtime, op, x->items[i], y->items[i]);
  }
  const size_t m = x->items.size(), n = y->items.size();
  return holds(m < n ? -1 : m > n);
}

}  // namespace

Value FailUndefined(Runtime& runtime, const Value& value) {
  const Undefined* undefined = value.As<Undefined>();
  return runtime.Fail(undefined && undefined->problem ? *undefined->problem
                                                      : "an undefined value is used");
}

Value FailUnhashable(Runtime& runtime, const Value& key) {
  std::string message = "unhashable type: '";
  message += key.TypeName();
  message += "'";
  return runtime.Fail(message);
}

bool Truth(const Value& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (const bool* b = value.boolean()) return *b;
  if (const int64_t* i = value.As<int64_t>()) return *i != 0;
  if (const double* d = value.real()) return *d != 0;
  if (const String* text = value.string()) return !text->text.empty();
  if (const List* list = value.list()) {
    return list->kind == List::Kind::kIterator || !list->items.empty();
  }
  if (const Dict* dict = value.dict()) return dict->size() != 0;
  return true;
}

bool Equal(Runtime& runtime, const Value& a, const Value& b) {
  if (!runtime.Charge(1)) return false;
  if (a.string() || b.string()) {
    if (!a.string() || !b.string()) return false;
    const std::string &x = a.string()->text, &y = b.string()->text;
    return x.size() == y.size() && runtime.ChargeBytes(x.size()) && x == y;
  }
  if (a.is_undefined() || b.is_undefined()) return a.is_undefined() && b.is_undefined();
  if (a.is_number() && b.is_number()) return CompareNumbers(a, b) == 0;
  if (a.list() && b.list()) return ListsEqual(runtime, *a.list(), *b.list());
  if (a.dict() && b.dict()) return DictsEqual(runtime, *a.dict(), *b.dict());
  return a.SameAs(b);
}

bool Less(Runtime& runtime, const Value& a, const Value& b) {
  return Ordered(runtime, Comparison::kLt, a, b);
}

bool Compare(Runtime& runtime, Comparison op, const Value& a, const Value& b) {
  switch (op) {
    case Comparison::kEq:
      return Equal(runtime, a, b);
    case Comparison::kNe:
      return !Equal(runtime, a, b);
    case Comparison::kIn:
      return Contains(runtime, b, a);
    case Comparison::kNotIn:
      return !Contains(runtime, b, a);
    default:
      return Ordered(runtime, op, a, b);
  }
}

bool Contains(Runtime& runtime, const Value& container, const Value& item) {
  if (const String* text = container.string()) {
    if (!item.string()) {
      if (item.is_undefined()) {
        runtime.Fail("'in <string>' requires string as left operand, not Undefined");
        return false;
      }
      runtime.Fail("'in <string>' requires string as left operand, not " + item.TypeName());
      return false;
    }
    const std::string& needle = item.string()->text;
    if (!runtime.ChargeBytes(text->text.size() + needle.size())) return false;
    // memmem stays linear on repetitive text, which std::string::find does not.
    return needle.empty() ||
           memmem(text->text.data(), text->text.size(), needle.data(), needle.size()) != nullptr;
  }
  if (const Dict* dict = container.dict()) {
    if (Hashable(item)) return dict->Find(item) != nullptr;
    FailUnhashable(runtime, item);
    return false;
  }
  if (const List* list = container.list()) {
    size_t i = list->kind == List::Kind::kIterator ? list->next : 0;
    bool found = false;
    for (; i < list->items.size() && !found && runtime.ok(); ++i) {
      found = Equal(runtime, list->items[i], item);
    }
    if (list->kind == List::Kind::kIterator) list->next = i;
    if (!found && !list->failure.empty()) runtime.Fail(list->failure);
    return found;
  }
  if (!container.is_undefined()) {
    runtime.Fail("argument of type '" + container.TypeName() + "' is not iterable");
  }
  return false;
}

}  // namespace sluice::engine::jinja
