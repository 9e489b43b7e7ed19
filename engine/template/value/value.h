#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

// The values that a template computes with. All but namespaces, loops and the state of cyclers are
// immutable, so a copy shares its parts. Values belong to one rendering; those inside a compiled
// template's constants are strings and numbers only, which threads may share.
namespace sluice::engine::jinja {

class Value;
class Dict;
struct List;
struct Namespace;
struct Callable;
class Loop;

struct None {};

// The result of looking up what isn't there. Prints as nothing; any other use fails with `problem`.
struct Undefined {
  std::shared_ptr<const std::string> problem;
};

struct String {
  std::string text;      // valid UTF-8
  int64_t length = 0;    // code points
  bool escaped = false;  // came from the filters escape or safe: not escaped again
};

using StringPtr = std::shared_ptr<const String>;
using ListPtr = std::shared_ptr<const List>;
using DictPtr = std::shared_ptr<const Dict>;
using NamespacePtr = std::shared_ptr<Namespace>;
using CallablePtr = std::shared_ptr<const Callable>;
using LoopPtr = std::shared_ptr<Loop>;

class Value {
 public:
  Value() : data_(Undefined{}) {}
  Value(None none) : data_(none) {}
  Value(Undefined undefined) : data_(std::move(undefined)) {}
  explicit Value(bool b) : data_(b) {}
  explicit Value(int64_t i) : data_(i) {}
  explicit Value(double d) : data_(d) {}
  explicit Value(StringPtr s) : data_(std::move(s)) {}
  explicit Value(ListPtr l) : data_(std::move(l)) {}
  explicit Value(DictPtr d) : data_(std::move(d)) {}
  explicit Value(NamespacePtr n) : data_(std::move(n)) {}
  explicit Value(CallablePtr c) : data_(std::move(c)) {}
  explicit Value(LoopPtr l) : data_(std::move(l)) {}

  // A string value, without any budget: for short texts and constants.
  static Value Text(std::string text);

  template <typename T>
  const T* As() const {
    return std::get_if<T>(&data_);
  }
  bool is_undefined() const { return As<Undefined>() != nullptr; }
  bool is_none() const { return As<None>() != nullptr; }
  const bool* boolean() const { return As<bool>(); }
  const double* real() const { return As<double>(); }
  const String* string() const { return Pointee<StringPtr>(); }
  const List* list() const { return Pointee<ListPtr>(); }
  const Dict* dict() const { return Pointee<DictPtr>(); }
  Namespace* name_space() const { return Pointee<NamespacePtr>(); }
  const Callable* callable() const { return Pointee<CallablePtr>(); }
  Loop* loop() const { return Pointee<LoopPtr>(); }

  // An int or a bool, which Python counts as one; false for others.
  bool ToInteger(int64_t* out) const;
  // Any of the three number types.
  bool ToDouble(double* out) const;
  bool is_number() const;
  bool is_integer() const { return As<bool>() || As<int64_t>(); }

  // Python's name of the type: "str", "int", "list", ...
  std::string TypeName() const;
  // Levels of lists and dicts below and including this one.
  int Depth() const;
  // Python's `is`: same object, or an equal None, bool or int.
  bool SameAs(const Value& other) const;

 private:
  template <typename P>
  auto Pointee() const -> decltype(std::declval<P>().get()) {
    const P* pointer = std::get_if<P>(&data_);
    return pointer ? pointer->get() : nullptr;
  }

  std::variant<Undefined, None, bool, int64_t, double, StringPtr, ListPtr, DictPtr, NamespacePtr,
               CallablePtr, LoopPtr>
      data_;
};

// Every kind of Python sequence and iterator that templates meet.
struct List {
  enum class Kind { kList, kTuple, kRange, kKeys, kValues, kItems, kGroup, kIterator };

  Kind kind = Kind::kList;
  std::vector<Value> items;
  int depth = 1;
  int64_t range_start = 0, range_stop = 0, range_step = 1;  // for kRange
  // For kIterator: items before this one are used up, as a Python generator can be walked only
  // once.
  mutable size_t next = 0;
  std::string failure;  // for kIterator, if not empty: what it fails with behind its last item

  bool is_sequence() const {
    return kind == Kind::kList || kind == Kind::kTuple || kind == Kind::kRange ||
           kind == Kind::kGroup;
  }
  bool is_tuple() const { return kind == Kind::kTuple || kind == Kind::kGroup; }
};

// A mapping that keeps its order. Keys are compared as Python compares them (1, 1.0 and True are
// one key).
class Dict {
 public:
  using Entry = std::pair<Value, Value>;

  const std::vector<Entry>& entries() const { return entries_; }
  size_t size() const { return entries_.size(); }
  int depth() const { return depth_; }

  // nullptr when there is no such key. An unhashable key is not found.
  const Value* Find(const Value& key) const;
  const Value* Find(std::string_view key) const;

  // Adds, or replaces the value of an equal key. Precondition: Hashable(key).
  void Set(Value key, Value value);

 private:
  int64_t IndexOf(size_t hash, const Value& key) const;

  std::vector<Entry> entries_;
  std::vector<size_t> hashes_;                       // of the keys, in order
  std::unordered_multimap<size_t, uint32_t> index_;  // hash -> entry, once there are many
  int depth_ = 1;
};

// namespace(): the one container that a template may change. Keys are strings.
struct Namespace {
  Dict attributes;
};

bool Hashable(const Value& value);
// Equal hashable values have equal hashes. Seeded per process. Precondition: Hashable(value).
size_t HashOf(const Value& value);

}  // namespace sluice::engine::jinja
