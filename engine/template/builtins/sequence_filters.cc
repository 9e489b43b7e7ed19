#include <algorithm>
#include <array>

#include "engine/template/builtins/attribute_getter.h"
#include "engine/template/builtins/parameters.h"
#include "engine/template/builtins/registry.h"
#include "engine/template/value/operations.h"
#include "engine/template/value/print.h"
#include "engine/template/value/text.h"

// Filters over lists and other iterables.
namespace sluice::engine::jinja {
namespace {

using Items = std::vector<Value>;

Value LengthFilter(Runtime& runtime, const Value& input, Arguments& arguments) {
  if (!Parameters(runtime, "length", arguments, {}).ok()) return Value();
  const std::optional<int64_t> length = Length(input);
  return length ? Value(*length)
                : runtime.Fail("object of type '" + input.TypeName() + "' has no len()");
}

Value First(Runtime& runtime, const Value& input, Arguments& arguments) {
  if (!Parameters(runtime, "first", arguments, {}).ok()) return Value();
  const List* list = input.list();
  if (list && list->kind == List::Kind::kIterator && list->next < list->items.size()) {
    return list->items[list->next++];
  }
  Items items;
  if (!Iterate(runtime, input, &items)) return Value();
  return items.empty() ? Runtime::MakeUndefined("no first item, the sequence was empty") : items[0];
}

Value Last(Runtime& runtime, const Value& input, Arguments& arguments) {
  if (!Parameters(runtime, "last", arguments, {}).ok()) return Value();
  if (input.list() && input.list()->kind == List::Kind::kIterator) {
    return runtime.Fail("'generator' object is not reversible");
  }
  Items items;
  if (!Iterate(runtime, input, &items)) return Value();
  return items.empty() ? Runtime::MakeUndefined("no last item, the sequence was empty")
                       : items.back();
}

Value ListFilter(Runtime& runtime, const Value& input, Arguments& arguments) {
  if (!Parameters(runtime, "list", arguments, {}).ok()) return Value();
  Items items;
  return Iterate(runtime, input, &items) ? runtime.MakeList(std::move(items)) : Value();
}

Value Join(Runtime& runtime, const Value& input, Arguments& arguments) {
  Parameters parameters(runtime, "join", arguments, {"d", "attribute"});
  Items items;
  if (!parameters.ok() || !Iterate(runtime, input, &items)) return Value();
  const std::string separator = parameters[0] ? ToStr(runtime, *parameters[0]) : "";
  const AttributeGetter getter(runtime, parameters[1]);
  std::string out;
  for (size_t i = 0; i < items.size() && runtime.ok(); ++i) {
    if (i && runtime.MayHold(out.size() + separator.size()) &&
        runtime.ChargeBytes(separator.size())) {
      out += separator;
    }
    AppendStr(runtime, getter.Get(items[i]), &out);
  }
  return runtime.MakeText(std::move(out));
}

Value Reverse(Runtime& runtime, const Value& input, Arguments& arguments) {
  if (!Parameters(runtime, "reverse", arguments, {}).ok()) return Value();
  Items items;
  if (!Iterate(runtime, input, &items)) return Value();
  std::reverse(items.begin(), items.end());
  if (!input.string()) {
    // What Python's reversed() does not take is made a list.
    const bool generator = input.list() && input.list()->kind == List::Kind::kIterator;
    return runtime.MakeList(std::move(items),
                            generator ? List::Kind::kList : List::Kind::kIterator);
  }
  std::string out;
  for (const Value& item : items) out += item.string()->text;
  return runtime.MakeText(std::move(out));
}

enum class KeyOrder {
  kPlain,  // every two keys must have an order
  kLists,  // keys that are equal need none: Jinja2 wraps them in lists, which look for a difference
           // first
};

// Sorts stably by the keys; items and keys are of equal size.
void SortByKeys(Runtime& runtime, const Items& keys, KeyOrder key_order, bool reverse,
                Items* items) {
  std::vector<size_t> order(keys.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (!runtime.ok()) return false;
    if (key_order == KeyOrder::kLists && Equal(runtime, keys[a], keys[b])) return false;
    return reverse ? Less(runtime, keys[b], keys[a]) : Less(runtime, keys[a], keys[b]);
  });
  Items sorted;
  sorted.reserve(items->size());
  for (size_t i : order) sorted.push_back((*items)[i]);
  *items = std::move(sorted);
}

Items KeysOf(const Items& items, const AttributeGetter& getter) {
  Items keys;
  keys.reserve(items.size());
  for (const Value& item : items) keys.push_back(getter.Get(item));
  return keys;
}

Value Sort(Runtime& runtime, const Value& input, Arguments& arguments) {
  Parameters parameters(runtime, "sort", arguments, {"reverse", "case_sensitive", "attribute"});
  Items items;
  if (!parameters.ok() || !Iterate(runtime, input, &items)) return Value();
  AttributeGetter getter(runtime, parameters[2]);
  getter.set_ignore_case(!parameters.Flag(1, false));
  getter.set_several(true);
  SortByKeys(runtime, KeysOf(items, getter), KeyOrder::kLists, parameters.Flag(0, false), &items);
  return runtime.MakeList(std::move(items));
}

Value DictSort(Runtime& runtime, const Value& input, Arguments& arguments) {
  Parameters parameters(runtime, "dictsort", arguments, {"case_sensitive", "by", "reverse"});
  if (!parameters.ok()) return Value();
  const std::string by = parameters.Text(1, "key");
  if (by != "key" && by != "value") {
    return runtime.Fail("dictsort: you can only sort by either 'key' or 'value'");
  }
  const Dict* dict = input.dict();
  if (!dict) return runtime.Fail("dictsort needs a mapping, got " + input.TypeName());
  Items items, keys;
  for (const auto& [key, value] : dict->entries()) {
    if (!runtime.ok()) return Value();
    items.push_back(runtime.MakeList({key, value}, List::Kind::kTuple));
    const Value& sorted_by = by == "key" ? key : value;
    keys.push_back(parameters.Flag(0, false) ? sorted_by : IgnoreCase(runtime, sorted_by));
  }
  SortByKeys(runtime, keys, KeyOrder::kPlain, parameters.Flag(2, false), &items);
  return runtime.MakeList(std::move(items));
}

Value ItemsFilter(Runtime& runtime, const Value& input, Arguments& arguments) {
  if (!Parameters(runtime, "items", arguments, {}).ok()) return Value();
  Items items;
  if (const Dict* dict = input.dict()) {
    for (const auto& [key, value] : dict->entries()) {
      if (!runtime.ok()) return Value();
      items.push_back(runtime.MakeList({key, value}, List::Kind::kTuple));
    }
  } else if (!input.is_undefined()) {
    runtime.Fail("can only get item pairs from a mapping");
  }
  return runtime.MakeGenerator(std::move(items));
}

Value Unique(Runtime& runtime, const Value& input, Arguments& arguments) {
  Parameters parameters(runtime, "unique", arguments, {"case_sensitive", "attribute"});
  Items items;
  if (!parameters.ok()) return Value();
  if (!Iterate(runtime, input, &items)) return runtime.MakeGenerator({});
  AttributeGetter getter(runtime, parameters[1]);
  getter.set_ignore_case(!parameters.Flag(0, false));
  Dict seen;
  Items kept;
  for (const Value& item : items) {
    const Value key = getter.Get(item);
    if (runtime.ok() && !Hashable(key)) FailUnhashable(runtime, key);
    if (!runtime.ok()) break;
    if (seen.Find(key)) continue;
    seen.Set(key, None{});
    kept.push_back(item);
  }
  return runtime.MakeGenerator(std::move(kept));
}

template <bool largest>
Value Extreme(Runtime& runtime, const Value& input, Arguments& arguments) {
  Parameters parameters(runtime, largest ? "max" : "min", arguments,
                        {"case_sensitive", "attribute"});
  Items items;
  if (!parameters.ok() || !Iterate(runtime, input, &items)) return Value();
  if (items.empty()) return Runtime::MakeUndefined("no aggregated item, the sequence was empty");
  AttributeGetter getter(runtime, parameters[1]);
  getter.set_ignore_case(!parameters.Flag(0, false));
  const Items keys = KeysOf(items, getter);
  size_t best = 0;
  for (size_t i = 1; i < items.size() && runtime.ok(); ++i) {
    if (largest ? Less(runtime, keys[best], keys[i]) : Less(runtime, keys[i], keys[best])) best = i;
  }
  return items[best];
}

Value Sum(Runtime& runtime, const Value& input, Arguments& arguments) {
  Parameters parameters(runtime, "sum", arguments, {"attribute", "start"});
  Items items;
  if (!parameters.ok() || !Iterate(runtime, input, &items)) return Value();
  const AttributeGetter getter(runtime, parameters[0]);
  Value total = parameters[1] ? *parameters[1] : Value(int64_t{0});
  if (total.string()) return runtime.Fail("sum() can't sum strings [use ''.join(seq) instead]");
  for (const Value& item : items) {
    if (!runtime.ok()) return Value();
    total = Calculate(runtime, Arithmetic::kAdd, total, getter.Get(item));
  }
  return total;
}

Value Batch(Runtime& runtime, const Value& input, Arguments& arguments) {
  Parameters parameters(runtime, "batch", arguments, {"linecount", "fill_with"}, 1);
  Items items;
  if (!parameters.ok()) return Value();
  if (!Iterate(runtime, input, &items)) return runtime.MakeGenerator({});
  const int64_t count = parameters.Integer(0, 1);
  if (!parameters.ok()) return Value();
  const bool fills = parameters[1] && !parameters[1]->is_none();
  Items batches, batch;
  for (const Value& item : items) {
    if (static_cast<int64_t>(batch.size()) == count) {
      batches.push_back(runtime.MakeList(std::exchange(batch, {})));
    }
    batch.push_back(item);
  }
  if (!batch.empty()) {
    while (fills && static_cast<int64_t>(batch.size()) < count && runtime.Charge(1)) {
      batch.push_back(*parameters[1]);
    }
    batches.push_back(runtime.MakeList(std::move(batch)));
  }
  return runtime.MakeGenerator(std::move(batches));
}

Value Slice(Runtime& runtime, const Value& input, Arguments& arguments) {
  Parameters parameters(runtime, "slice", arguments, {"slices", "fill_with"}, 1);
  Items items;
  if (!parameters.ok()) return Value();
  if (!Iterate(runtime, input, &items)) return runtime.MakeGenerator({});
  const int64_t slices = parameters.Integer(0, 1);
  if (!parameters.ok()) return Value();
  if (slices == 0) {
    runtime.Fail("integer division or modulo by zero");
    return runtime.MakeGenerator({});
  }
  const auto length = static_cast<int64_t>(items.size());
  const int64_t each = slices > 0 ? length / slices : 0, longer = slices > 0 ? length % slices : 0;
  const bool fills = parameters[1] && !parameters[1]->is_none();
  Items columns;
  int64_t at = 0;
  for (int64_t i = 0; i < slices && runtime.ok(); ++i) {
    const int64_t size = each + (i < longer ? 1 : 0);
    Items column(items.begin() + at, items.begin() + at + size);
    at += size;
    if (fills && i >= longer) column.push_back(*parameters[1]);
    columns.push_back(runtime.MakeList(std::move(column)));
  }
  return runtime.MakeGenerator(std::move(columns));
}

Value GroupBy(Runtime& runtime, const Value& input, Arguments& arguments) {
  Parameters parameters(runtime, "groupby", arguments, {"attribute", "default", "case_sensitive"},
                        1);
  Items items;
  if (!parameters.ok() || !Iterate(runtime, input, &items)) return Value();
  AttributeGetter getter(runtime, parameters[0]);
  getter.set_default(parameters[1] && !parameters[1]->is_none() ? parameters[1] : nullptr);
  AttributeGetter shown = getter;
  getter.set_ignore_case(!parameters.Flag(2, false));
  SortByKeys(runtime, KeysOf(items, getter), KeyOrder::kPlain, false, &items);
  Items groups;
  for (size_t begin = 0; begin < items.size() && runtime.ok();) {
    const Value key = getter.Get(items[begin]);
    size_t end = begin + 1;
    while (end < items.size() && runtime.ok() && Equal(runtime, getter.Get(items[end]), key)) ++end;
    Items group(items.begin() + static_cast<int64_t>(begin),
                items.begin() + static_cast<int64_t>(end));
    const Value grouper = shown.Get(items[begin]);
    groups.push_back(
        runtime.MakeList({grouper, runtime.MakeList(std::move(group))}, List::Kind::kGroup));
    begin = end;
  }
  return runtime.MakeList(std::move(groups));
}

constexpr std::array<std::pair<std::string_view, Filter>, 17> kFilters = {{
    {"length", LengthFilter},
    {"count", LengthFilter},
    {"first", First},
    {"last", Last},
    {"list", ListFilter},
    {"join", Join},
    {"reverse", Reverse},
    {"sort", Sort},
    {"dictsort", DictSort},
    {"items", ItemsFilter},
    {"unique", Unique},
    {"min", Extreme<false>},
    {"max", Extreme<true>},
    {"sum", Sum},
    {"batch", Batch},
    {"slice", Slice},
    {"groupby", GroupBy},
}};

}  // namespace

Filter FindSequenceFilter(std::string_view name) {
  for (const auto& [key, filter] : kFilters) {
    if (key == name) return filter;
  }
  return nullptr;
}

}  // namespace sluice::engine::jinja
