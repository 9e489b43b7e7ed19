#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "engine/template/builtins/format_method.h"
#include "engine/template/builtins/parameters.h"
#include "engine/template/builtins/registry.h"
#include "engine/template/builtins/text_search.h"
#include "engine/template/value/operations.h"
#include "engine/template/value/text.h"

// The methods of Python's str.
namespace sluice::engine::jinja {
namespace {

const std::string& TextOf(const Value& self) { return self.string()->text; }

// A method without arguments that maps a text to a text.
template <std::string (*Map)(std::string_view)>
Value Mapped(Runtime& runtime, const Value& self, Arguments& arguments) {
  if (!Parameters(runtime, "str method", arguments, {}).ok()) return Value();
  return runtime.ChargeBytes(TextOf(self).size())
             ? runtime.MakeText(Map(TextOf(self)), self.string()->escaped)
             : Value();
}

// A method that is true when the text has characters and all of them satisfy a predicate.
template <bool (*Predicate)(char32_t)>
Value AllAre(Runtime& runtime, const Value& self, Arguments& arguments) {
  if (!Parameters(runtime, "str method", arguments, {}).ok()) return Value();
  const std::string& text = TextOf(self);
  if (!runtime.ChargeBytes(text.size())) return Value();
  for (size_t at = 0; at < text.size();) {
    if (!Predicate(NextCodePoint(text, &at))) return Value(false);
  }
  return Value(!text.empty());
}

bool IsAlnum(char32_t c) { return IsAlpha(c) || IsNumeric(c) || IsDigit(c); }

// isupper and islower: at least one cased character, and none of the other case.
template <bool (*Wanted)(char32_t), bool (*Other)(char32_t)>
Value IsCase(Runtime& runtime, const Value& self, Arguments& arguments) {
  if (!Parameters(runtime, "str method", arguments, {}).ok()) return Value();
  bool found = false;
  const std::string& text = TextOf(self);
  if (!runtime.ChargeBytes(text.size())) return Value();
  for (size_t at = 0; at < text.size();) {
    const char32_t c = NextCodePoint(text, &at);
    if (Other(c) || IsTitle(c)) return Value(false);
    found |= Wanted(c);
  }
  return Value(found);
}

Value IsTitleCase(Runtime& runtime, const Value& self, Arguments& arguments) {
  if (!Parameters(runtime, "istitle", arguments, {}).ok()) return Value();
  bool found = false, after_cased = false;
  const std::string& text = TextOf(self);
  if (!runtime.ChargeBytes(text.size())) return Value();
  for (size_t at = 0; at < text.size();) {
    const char32_t c = NextCodePoint(text, &at);
    const bool upper = IsUpper(c) || IsTitle(c), lower = IsLower(c);
    if ((upper && after_cased) || (lower && !after_cased)) return Value(false);
    after_cased = upper || lower;
    found |= after_cased;
  }
  return Value(found);
}

Value IsAsciiText(Runtime& runtime, const Value& self, Arguments& arguments) {
  if (!Parameters(runtime, "isascii", arguments, {}).ok()) return Value();
  return Value(IsAscii(TextOf(self)));
}

template <StripSides sides>
Value StripMethod(Runtime& runtime, const Value& self, Arguments& arguments) {
  Parameters parameters(runtime, "strip", arguments, {"chars"});
  const bool has_chars = parameters.ok() && parameters[0] && !parameters[0]->is_none();
  const std::string chars = has_chars ? parameters.Text(0, "") : "";
  if (!parameters.ok() || !runtime.ChargeBytes(TextOf(self).size() + 16 * chars.size())) {
    return Value();
  }
  const std::string_view view = chars;
  return runtime.MakeText(std::string(Strip(TextOf(self), has_chars ? &view : nullptr, sides)),
                          self.string()->escaped);
}

Value MakeParts(Runtime& runtime, const std::vector<std::string_view>& parts, const Value& self) {
  if (!runtime.MayHold(parts.size() * sizeof(Value))) return Value();
  std::vector<Value> items;
  items.reserve(parts.size());
  for (std::string_view part : parts) {
    if (!runtime.ok()) return Value();
    items.push_back(runtime.MakeText(std::string(part), self.string()->escaped));
  }
  return runtime.MakeList(std::move(items));
}

template <bool from_right>
Value Split(Runtime& runtime, const Value& self, Arguments& arguments) {
  Parameters parameters(runtime, "split", arguments, {"sep", "maxsplit"});
  if (!parameters.ok()) return Value();
  const int64_t limit = parameters.Integer(1, -1);
  const bool at_space = !parameters[0] || parameters[0]->is_none();
  const std::string separator = at_space ? "" : parameters.Text(0, "");
  if (!parameters.ok() || !runtime.ChargeBytes(TextOf(self).size())) return Value();
  if (at_space) return MakeParts(runtime, SplitAtSpace(TextOf(self), limit, from_right), self);
  if (separator.empty()) return runtime.Fail("empty separator");
  return MakeParts(runtime, SplitAt(TextOf(self), separator, limit, from_right), self);
}

Value SplitLinesMethod(Runtime& runtime, const Value& self, Arguments& arguments) {
  Parameters parameters(runtime, "splitlines", arguments, {"keepends"});
  if (!parameters.ok() || !runtime.ChargeBytes(TextOf(self).size())) return Value();
  return MakeParts(runtime, SplitLines(TextOf(self), parameters.Flag(0, false)), self);
}

template <bool from_right>
Value Partition(Runtime& runtime, const Value& self, Arguments& arguments) {
  Parameters parameters(runtime, "partition", arguments, {"sep"}, 1);
  const std::string separator = parameters.ok() ? parameters.Text(0, "") : "";
  if (!parameters.ok() || !runtime.ChargeBytes(2 * TextOf(self).size())) return Value();
  if (separator.empty()) return runtime.Fail("empty separator");
  const std::string_view text = TextOf(self);
  const size_t at = from_right ? FindLast(text, separator) : FindFirst(text, separator);
  std::vector<Value> parts;
  if (at != kNotFound) {
    parts = {runtime.MakeText(text.substr(0, at)), runtime.MakeText(separator),
             runtime.MakeText(text.substr(at + separator.size()))};
  } else if (from_right) {
    parts = {Value::Text(""), Value::Text(""), self};
  } else {
    parts = {self, Value::Text(""), Value::Text("")};
  }
  return runtime.MakeList(std::move(parts), List::Kind::kTuple);
}

// The part of the text that optional start and end arguments (the 2nd and 3rd) select, and where it
// begins.
struct Window {
  std::string_view text;
  int64_t first_index = 0;
  bool empty_range = false;  // start lies behind the end: not even the empty text is found
};

std::optional<Window> SelectWindow(Runtime& runtime, const Value& self, Parameters& parameters) {
  const int64_t length = self.string()->length;
  const auto clamp = [&](size_t i, int64_t absent) {
    if (!parameters[i] || parameters[i]->is_none()) return absent;
    const int64_t index = parameters.Integer(i, absent);
    return index < 0 ? std::max<int64_t>(index + length, 0) : index;
  };
  const int64_t start = clamp(1, 0);
  const int64_t end = std::min(clamp(2, length), length);
  if (!parameters.ok() || !runtime.ChargeBytes(TextOf(self).size())) return std::nullopt;
  Window window;
  window.first_index = start;
  if (start > end) {
    window.empty_range = true;
    return window;
  }
  const size_t begin = OffsetOfIndex(TextOf(self), start);
  window.text =
      std::string_view(TextOf(self)).substr(begin, OffsetOfIndex(TextOf(self), end) - begin);
  return window;
}

template <bool last, bool must_exist>
Value Find(Runtime& runtime, const Value& self, Arguments& arguments) {
  Parameters parameters(runtime, must_exist ? "index" : "find", arguments, {"sub", "start", "end"},
                        1);
  if (!parameters.ok()) return Value();
  const std::string pattern = parameters.Text(0, "");
  const std::optional<Window> window = SelectWindow(runtime, self, parameters);
  if (!window) return Value();
  size_t at = kNotFound;
  if (!window->empty_range) {
    at = last ? FindLast(window->text, pattern) : FindFirst(window->text, pattern);
  }
  if (at != kNotFound) {
    return Value(window->first_index + CodePointCount(window->text.substr(0, at)));
  }
  return must_exist ? runtime.Fail("substring not found") : Value(int64_t{-1});
}

Value Count(Runtime& runtime, const Value& self, Arguments& arguments) {
  Parameters parameters(runtime, "count", arguments, {"sub", "start", "end"}, 1);
  if (!parameters.ok()) return Value();
  const std::string pattern = parameters.Text(0, "");
  const std::optional<Window> window = SelectWindow(runtime, self, parameters);
  if (!window) return Value();
  if (window->empty_range) return Value(int64_t{0});
  if (pattern.empty()) return Value(CodePointCount(window->text) + 1);
  int64_t count = 0;
  for (size_t at = FindFirst(window->text, pattern); at != kNotFound;
       at = FindFirst(window->text, pattern, at + pattern.size())) {
    ++count;
  }
  return Value(count);
}

template <bool at_end>
Value HasAffix(Runtime& runtime, const Value& self, Arguments& arguments) {
  const char* name = at_end ? "endswith" : "startswith";
  Parameters parameters(runtime, name, arguments, {"prefix", "start", "end"}, 1);
  if (!parameters.ok()) return Value();
  const std::optional<Window> window = SelectWindow(runtime, self, parameters);
  if (!window) return Value();
  const auto matches = [&](const Value& affix) {
    if (!affix.string()) {
      runtime.Fail(std::string(name) + " first arg must be str or a tuple of str, not " +
                   affix.TypeName());
      return false;
    }
    const std::string& text = TextOf(affix);
    if (window->empty_range || text.size() > window->text.size()) return false;
    return runtime.ChargeBytes(text.size()) &&
           window->text.substr(at_end ? window->text.size() - text.size() : 0, text.size()) == text;
  };
  const List* list = parameters[0]->list();
  if (!list || !list->is_tuple()) return Value(matches(*parameters[0]));
  return Value(std::any_of(list->items.begin(), list->items.end(), matches));
}

template <bool at_end>
Value RemoveAffix(Runtime& runtime, const Value& self, Arguments& arguments) {
  Parameters parameters(runtime, at_end ? "removesuffix" : "removeprefix", arguments, {"affix"}, 1);
  const std::string affix = parameters.ok() ? parameters.Text(0, "") : "";
  if (!parameters.ok()) return Value();
  const std::string_view text = TextOf(self);
  if (affix.size() > text.size()) return self;
  const size_t rest = text.size() - affix.size();
  if (text.substr(at_end ? rest : 0, affix.size()) != affix) return self;
  return runtime.MakeText(text.substr(at_end ? 0 : affix.size(), rest));
}

Value Join(Runtime& runtime, const Value& self, Arguments& arguments) {
  Parameters parameters(runtime, "join", arguments, {"iterable"}, 1);
  std::vector<Value> items;
  if (!parameters.ok() || !Iterate(runtime, *parameters[0], &items)) return Value();
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    const String* text = items[i].string();
    if (!text) {
      return runtime.Fail("sequence item " + std::to_string(i) + ": expected str instance, " +
                          items[i].TypeName() + " found");
    }
    const std::string& separator = i ? TextOf(self) : std::string();
    const size_t added = separator.size() + text->text.size();
    if (!runtime.MayHold(out.size() + added) || !runtime.ChargeBytes(added)) return Value();
    out += separator;
    out += text->text;
  }
  return runtime.MakeText(std::move(out));
}

enum class Align { kLeft, kRight, kCenter, kZeros };

template <Align align>
Value Pad(Runtime& runtime, const Value& self, Arguments& arguments) {
  Parameters parameters(runtime, "just", arguments, {"width", "fillchar"}, 1);
  if (!parameters.ok()) return Value();
  const int64_t width = parameters.Integer(0, 0);
  const std::string fill = parameters.Text(1, align == Align::kZeros ? "0" : " ");
  if (!parameters.ok()) return Value();
  if (CodePointCount(fill) != 1) {
    return runtime.Fail("The fill character must be exactly one character long");
  }
  const int64_t missing = width - self.string()->length;
  if (missing <= 0) return self;
  if (static_cast<uint64_t>(missing) > runtime.limits().output_bytes_max ||
      !runtime.MayHold(TextOf(self).size() + static_cast<size_t>(missing) * fill.size())) {
    runtime.MayHold(std::numeric_limits<size_t>::max());
    return Value();
  }
  int64_t left = 0;
  if (align == Align::kRight || align == Align::kZeros) left = missing;
  if (align == Align::kCenter) left = missing / 2 + (missing & width & 1);
  std::string out, rest = TextOf(self);
  if (align == Align::kZeros && !rest.empty() && (rest[0] == '-' || rest[0] == '+')) {
    out = rest.substr(0, 1);
    rest.erase(0, 1);
  }
  for (int64_t i = 0; i < left; ++i) out += fill;
  out += rest;
  for (int64_t i = left; i < missing; ++i) out += fill;
  return runtime.MakeText(std::move(out));
}

Value Replace(Runtime& runtime, const Value& self, Arguments& arguments) {
  Parameters parameters(runtime, "replace", arguments, {"old", "new", "count"}, 2);
  if (!parameters.ok()) return Value();
  const std::string from = parameters.Text(0, ""), to = parameters.Text(1, "");
  const int64_t limit = parameters.Integer(2, -1);
  return parameters.ok() ? ReplaceText(runtime, TextOf(self), {from, to, limit}) : Value();
}

Value Format(Runtime& runtime, const Value& self, Arguments& arguments) {
  return FormatText(runtime, TextOf(self), arguments);
}

constexpr std::array<std::pair<std::string_view, Method>, 41> kMethods = {{
    {"strip", StripMethod<StripSides::kBoth>},
    {"lstrip", StripMethod<StripSides::kLeft>},
    {"rstrip", StripMethod<StripSides::kRight>},
    {"split", Split<false>},
    {"rsplit", Split<true>},
    {"splitlines", SplitLinesMethod},
    {"partition", Partition<false>},
    {"rpartition", Partition<true>},
    {"startswith", HasAffix<false>},
    {"endswith", HasAffix<true>},
    {"removeprefix", RemoveAffix<false>},
    {"removesuffix", RemoveAffix<true>},
    {"replace", Replace},
    {"upper", Mapped<ToUpper>},
    {"lower", Mapped<ToLower>},
    {"casefold", Mapped<ToLower>},
    {"title", Mapped<ToTitle>},
    {"capitalize", Mapped<Capitalize>},
    {"swapcase", Mapped<SwapCase>},
    {"find", Find<false, false>},
    {"rfind", Find<true, false>},
    {"index", Find<false, true>},
    {"rindex", Find<true, true>},
    {"count", Count},
    {"join", Join},
    {"format", Format},
    {"ljust", Pad<Align::kLeft>},
    {"rjust", Pad<Align::kRight>},
    {"center", Pad<Align::kCenter>},
    {"zfill", Pad<Align::kZeros>},
    {"isdigit", AllAre<IsDigit>},
    {"isdecimal", AllAre<IsDecimal>},
    {"isnumeric", AllAre<IsNumeric>},
    {"isalpha", AllAre<IsAlpha>},
    {"isalnum", AllAre<IsAlnum>},
    {"isspace", AllAre<IsSpace>},
    {"isprintable", AllAre<IsPrintable>},
    {"isupper", IsCase<IsUpper, IsLower>},
    {"islower", IsCase<IsLower, IsUpper>},
    {"istitle", IsTitleCase},
    {"isascii", IsAsciiText},
}};

}  // namespace

Method FindStringMethod(std::string_view name) {
  for (const auto& [key, method] : kMethods) {
    if (key == name && method) return method;
  }
  return nullptr;
}

}  // namespace sluice::engine::jinja
