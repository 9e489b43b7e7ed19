#include <algorithm>

#include "engine/template/value/operations.h"
#include "engine/template/value/text.h"

namespace sluice::engine::jinja {
namespace {

// A slice bound moved into [low, high], as Python clamps it; `absent` when it is None.
bool Clamp(const Value& bound, int64_t absent, int64_t length, int64_t low_high[2], int64_t* out) {
  if (bound.is_none()) {
    *out = absent;
    return true;
  }
  int64_t index;
  if (!bound.ToInteger(&index)) return false;
  if (index < 0) index = index < -length ? low_high[0] : std::max(index + length, low_high[0]);
  *out = std::min(index, low_high[1]);
  return true;
}

struct SliceRange {
  int64_t start, stop, step, count;
};

bool ResolveSlice(Runtime& runtime, const SliceBounds& bounds, int64_t length, SliceRange* out) {
  out->step = 1;
  if (!bounds.step.is_none() && !bounds.step.ToInteger(&out->step)) {
    runtime.Fail("slice indices must be integers or None");
    return false;
  }
  if (out->step == 0) {
    runtime.Fail("slice step cannot be zero");
    return false;
  }
  const bool forward = out->step > 0;
  int64_t low_high[2] = {forward ? 0 : -1, forward ? length : length - 1};
  if (!Clamp(bounds.start, forward ? 0 : length - 1, length, low_high, &out->start) ||
      !Clamp(bounds.stop, forward ? length : -1, length, low_high, &out->stop)) {
    runtime.Fail("slice indices must be integers or None");
    return false;
  }
  const int64_t distance = forward ? out->stop - out->start : out->start - out->stop;
  // A step beyond the length takes one item, like one of exactly the length; and can then not
  // overflow.
  out->step = std::clamp(out->step, -length - 1, length + 1);
  const int64_t stride = forward ? out->step : -out->step;
  out->count = distance <= 0 ? 0 : (distance - 1) / stride + 1;
  return true;
}

Value SliceText(Runtime& runtime, const String& text, const SliceRange& range) {
  const bool ascii = static_cast<int64_t>(text.text.size()) == text.length;
  if (range.step == 1 && range.count > 0) {
    if (!runtime.ChargeBytes(text.text.size())) return Value();
    const auto offset = [&](int64_t index) {
      return ascii ? static_cast<size_t>(index) : OffsetOfIndex(text.text, index);
    };
    const size_t begin = offset(range.start);
    return runtime.MakeText(text.text.substr(begin, offset(range.stop) - begin));
  }
  if (!runtime.Charge(text.length + 1)) return Value();
  std::vector<size_t> offsets;
  for (size_t offset = 0; offset < text.text.size(); NextCodePoint(text.text, &offset)) {
    offsets.push_back(offset);
  }
  offsets.push_back(text.text.size());
  std::string out;
  for (int64_t i = 0; i < range.count; ++i) {
    const size_t index = static_cast<size_t>(range.start + i * range.step);
    out.append(text.text, offsets[index], offsets[index + 1] - offsets[index]);
  }
  return runtime.MakeText(std::move(out));
}

Value SliceList(Runtime& runtime, const List& list, const SliceRange& range) {
  if (!runtime.Charge(range.count)) return Value();
  std::vector<Value> items;
  for (int64_t i = 0; i < range.count; ++i)
    items.push_back(list.items[range.start + i * range.step]);
  if (list.kind != List::Kind::kRange) {
    return runtime.MakeList(std::move(items),
                            list.is_tuple() ? List::Kind::kTuple : List::Kind::kList);
  }
  auto result = std::make_shared<List>();
  result->kind = List::Kind::kRange;
  result->items = std::move(items);
  result->range_start = list.range_start + range.start * list.range_step;
  result->range_stop = list.range_start + range.stop * list.range_step;
  result->range_step = list.range_step * range.step;
  return Value(ListPtr(std::move(result)));
}

}  // namespace

std::optional<int64_t> Length(const Value& value) {
  if (value.is_undefined()) return 0;
  if (const String* text = value.string()) return text->length;
  if (const Dict* dict = value.dict()) return static_cast<int64_t>(dict->size());
  const List* list = value.list();
  if (!list || list->kind == List::Kind::kIterator) return std::nullopt;
  return static_cast<int64_t>(list->items.size());
}

bool Iterate(Runtime& runtime, const Value& value, std::vector<Value>* items) {
  items->clear();
  if (value.is_undefined()) return true;
  if (const String* text = value.string()) {
    if (!runtime.MayHold(text->length * sizeof(Value)) || !runtime.Charge(text->length))
      return false;
    items->reserve(text->length);
    for (size_t offset = 0; offset < text->text.size();) {
      const size_t start = offset;
      NextCodePoint(text->text, &offset);
      items->push_back(Value::Text(text->text.substr(start, offset - start)));
    }
    return true;
  }
  if (const Dict* dict = value.dict()) {
    if (!runtime.Charge(static_cast<int64_t>(dict->size()))) return false;
    for (const Dict::Entry& entry : dict->entries()) items->push_back(entry.first);
    return true;
  }
  if (const List* list = value.list()) {
    if (!list->failure.empty()) {
      runtime.Fail(list->failure);
      return false;
    }
    const size_t first = list->kind == List::Kind::kIterator ? list->next : 0;
    if (!runtime.Charge(static_cast<int64_t>(list->items.size() - first))) return false;
    items->assign(list->items.begin() + static_cast<int64_t>(first), list->items.end());
    if (list->kind == List::Kind::kIterator) list->next = list->items.size();
    return true;
  }
  runtime.Fail("'" + value.TypeName() + "' object is not iterable");
  return false;
}

bool IsIterable(const Value& value) {
  return value.is_undefined() || value.string() || value.dict() || value.list();
}

Value GetSlice(Runtime& runtime, const Value& value, const SliceBounds& bounds) {
  if (value.is_undefined()) return FailUndefined(runtime, value);
  const List* list = value.list();
  const String* text = value.string();
  if (!text && !(list && list->is_sequence())) {
    return runtime.Fail("'" + value.TypeName() + "' object can't be sliced");
  }
  SliceRange range;
  const int64_t length = text ? text->length : static_cast<int64_t>(list->items.size());
  if (!ResolveSlice(runtime, bounds, length, &range)) return Value();
  return text ? SliceText(runtime, *text, range) : SliceList(runtime, *list, range);
}

}  // namespace sluice::engine::jinja
