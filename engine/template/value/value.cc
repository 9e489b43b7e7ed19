#include "engine/template/value/value.h"

#include <algorithm>
#include <cmath>

#include "absl/hash/hash.h"
#include "engine/template/value/runtime.h"
#include "engine/template/value/text.h"

namespace sluice::engine::jinja {
namespace {

// Dicts below this size are searched in order: quicker than the index, and chat messages are small.
constexpr size_t kIndexedFrom = 9;

const char* ListTypeName(List::Kind kind) {
  switch (kind) {
    case List::Kind::kList:
      return "list";
    case List::Kind::kTuple:
      return "tuple";
    case List::Kind::kGroup:
      return "tuple";
    case List::Kind::kRange:
      return "range";
    case List::Kind::kKeys:
      return "dict_keys";
    case List::Kind::kValues:
      return "dict_values";
    case List::Kind::kItems:
      return "dict_items";
    case List::Kind::kIterator:
      return "generator";
  }
  return "list";
}

// Equality of two keys with equal hashes.
bool KeysEqual(const Value& a, const Value& b) {
  if (const String* text = a.string()) return b.string() && b.string()->text == text->text;
  if (a.is_none() || a.is_undefined()) {
    return a.is_none() == b.is_none() && a.is_undefined() == b.is_undefined();
  }
  int64_t x, y;
  if (a.ToInteger(&x) && b.ToInteger(&y)) return x == y;
  double p, q;
  return a.ToDouble(&p) && b.ToDouble(&q) && p == q;
}

size_t HashOfText(std::string_view text) {
  return absl::HashOf(absl::string_view(text.data(), text.size()));
}

}  // namespace

Value Value::Text(std::string text) {
  auto string = std::make_shared<String>();
  string->length = CodePointCount(text);
  string->text = std::move(text);
  return Value(StringPtr(std::move(string)));
}

bool Value::ToInteger(int64_t* out) const {
  if (const bool* b = As<bool>()) {
    *out = *b ? 1 : 0;
    return true;
  }
  if (const int64_t* i = As<int64_t>()) {
    *out = *i;
    return true;
  }
  return false;
}

bool Value::ToDouble(double* out) const {
  if (const double* d = As<double>()) {
    *out = *d;
    return true;
  }
  int64_t i;
  if (!ToInteger(&i)) return false;
  *out = static_cast<double>(i);
  return true;
}

bool Value::is_number() const { return is_integer() || real(); }

std::string Value::TypeName() const {
  if (is_undefined()) return "Undefined";
  if (is_none()) return "NoneType";
  if (As<bool>()) return "bool";
  if (As<int64_t>()) return "int";
  if (As<double>()) return "float";
  if (string()) return "str";
  if (const List* l = list()) return ListTypeName(l->kind);
  if (dict()) return "dict";
  if (name_space()) return "Namespace";
  if (loop()) return "LoopContext";
  return callable() ? callable()->TypeName() : "object";
}

int Value::Depth() const {
  if (const List* l = list()) return l->depth;
  if (const Dict* d = dict()) return d->depth();
  if (const Callable* c = callable()) return c->depth;
  return loop() ? 1 : 0;
}

bool Value::SameAs(const Value& other) const {
  if (data_.index() != other.data_.index()) return false;
  if (is_none() || is_undefined()) return true;
  if (const bool* b = As<bool>()) return *b == *other.As<bool>();
  if (const int64_t* i = As<int64_t>()) return *i == *other.As<int64_t>();
  if (const double* d = As<double>()) return *d == *other.As<double>();
  if (string()) return string() == other.string() || string()->text == other.string()->text;
  return list() == other.list() && dict() == other.dict() && name_space() == other.name_space() &&
         callable() == other.callable() && loop() == other.loop();
}

const Value* Dict::Find(const Value& key) const {
  if (const String* text = key.string()) return Find(text->text);
  if (!Hashable(key)) return nullptr;
  const int64_t index = IndexOf(HashOf(key), key);
  return index < 0 ? nullptr : &entries_[index].second;
}

const Value* Dict::Find(std::string_view key) const {
  const auto matches = [&](size_t i) {
    const String* text = entries_[i].first.string();
    return text && text->text == key;
  };
  if (index_.empty()) {
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (matches(i)) return &entries_[i].second;
    }
    return nullptr;
  }
  const auto [begin, end] = index_.equal_range(HashOfText(key));
  for (auto it = begin; it != end; ++it) {
    if (matches(it->second)) return &entries_[it->second].second;
  }
  return nullptr;
}

int64_t Dict::IndexOf(size_t hash, const Value& key) const {
  if (index_.empty()) {
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (hashes_[i] == hash && KeysEqual(entries_[i].first, key)) return static_cast<int64_t>(i);
    }
    return -1;
  }
  const auto [begin, end] = index_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    if (KeysEqual(entries_[it->second].first, key)) return it->second;
  }
  return -1;
}

void Dict::Set(Value key, Value value) {
  depth_ = std::max(depth_, value.Depth() + 1);
  const size_t hash = HashOf(key);
  const int64_t found = IndexOf(hash, key);
  if (found >= 0) {
    entries_[found].second = std::move(value);
    return;
  }
  entries_.emplace_back(std::move(key), std::move(value));
  hashes_.push_back(hash);
  if (!index_.empty()) {
    index_.emplace(hash, static_cast<uint32_t>(entries_.size() - 1));
  } else if (entries_.size() >= kIndexedFrom) {
    for (size_t i = 0; i < hashes_.size(); ++i) {
      index_.emplace(hashes_[i], static_cast<uint32_t>(i));
    }
  }
}

bool Hashable(const Value& value) {
  return value.string() || value.is_number() || value.is_none() || value.is_undefined();
}

size_t HashOf(const Value& value) {
  if (const String* text = value.string()) return HashOfText(text->text);
  int64_t i;
  if (value.ToInteger(&i)) return absl::HashOf(i);
  if (const double* d = value.real()) {
    // Equal numbers hash alike whatever their type.
    if (*d >= -9e18 && *d <= 9e18 && std::trunc(*d) == *d) {
      return absl::HashOf(static_cast<int64_t>(*d));
    }
    return absl::HashOf(*d);
  }
  return value.is_none() ? 1 : 2;
}

}  // namespace sluice::engine::jinja
