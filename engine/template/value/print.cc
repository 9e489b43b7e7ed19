#include "engine/template/value/print.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "engine/template/value/text.h"

namespace sluice::engine::jinja {
namespace {

// Appends a piece of a longer text, checking that the whole may exist.
bool Append(Runtime& runtime, std::string_view piece, std::string* out) {
  if (!runtime.MayHold(out->size() + piece.size()) || !runtime.ChargeBytes(piece.size())) {
    return false;
  }
  out->append(piece);
  return true;
}

class ReprPrinter {
 public:
  ReprPrinter(Runtime& runtime, std::string* out) : runtime_(runtime), out_(out) {}

  void Print(const Value& value) {
    if (++depth_ > kValueDepthMax) {
      runtime_.Exhausted("a value to print nests deeper than " + std::to_string(kValueDepthMax));
    } else if (runtime_.Charge(1)) {
      PrintAny(value);
    }
    --depth_;
  }

 private:
  void PrintAny(const Value& value) {
    if (value.is_undefined()) return Put("Undefined");
    if (value.is_none()) return Put("None");
    if (const bool* b = value.boolean()) return Put(*b ? "True" : "False");
    if (const int64_t* i = value.As<int64_t>()) return Put(std::to_string(*i));
    if (const double* d = value.real()) return Put(FloatRepr(*d));
    if (const String* text = value.string()) {
      std::string quoted;
      AppendTextRepr(text->text, &quoted);
      return Put(text->escaped ? "Markup(" + quoted + ")" : quoted);
    }
    if (const List* list = value.list()) return PrintList(*list);
    if (const Dict* dict = value.dict()) return PrintDict(*dict);
    if (const Namespace* ns = value.name_space()) return PrintNamespace(*ns);
    if (const Callable* callable = value.callable()) return Put(Describe(*callable));
    Put("<" + value.TypeName() + ">");
  }

  static std::string Describe(const Callable& callable) {
    return "<" + callable.TypeName() + " '" + callable.Name() + "'>";
  }

  void PrintList(const List& list) {
    switch (list.kind) {
      case List::Kind::kList:
        return PrintItems("[", list, "]");
      case List::Kind::kTuple:
      case List::Kind::kGroup:
        return PrintItems("(", list, list.items.size() == 1 ? ",)" : ")");
      case List::Kind::kKeys:
        return PrintItems("dict_keys([", list, "])");
      case List::Kind::kValues:
        return PrintItems("dict_values([", list, "])");
      case List::Kind::kItems:
        return PrintItems("dict_items([", list, "])");
      case List::Kind::kIterator:
        return Put("<generator object>");
      case List::Kind::kRange:
        break;
    }
    std::string text =
        "range(" + std::to_string(list.range_start) + ", " + std::to_string(list.range_stop);
    if (list.range_step != 1) text += ", " + std::to_string(list.range_step);
    Put(text + ")");
  }

  void PrintItems(std::string_view open, const List& list, std::string_view close) {
    Put(open);
    bool first = true;
    for (const Value& item : list.items) {
      if (!runtime_.ok()) return;
      if (!first) Put(", ");
      first = false;
      Print(item);
    }
    Put(close);
  }

  void PrintDict(const Dict& dict) {
    Put("{");
    bool first = true;
    for (const auto& [key, value] : dict.entries()) {
      if (!runtime_.ok()) return;
      if (!first) Put(", ");
      first = false;
      Print(key);
      Put(": ");
      Print(value);
    }
    Put("}");
  }

  void PrintNamespace(const Namespace& ns) {
    Put("<Namespace ");
    PrintDict(ns.attributes);
    Put(">");
  }

  void Put(std::string_view piece) { Append(runtime_, piece, out_); }

  Runtime& runtime_;
  std::string* out_;
  int depth_ = 0;
};

void AppendUnicodeEscape(char32_t unit, std::string* out) {
  char buffer[16];
  std::snprintf(buffer, sizeof(buffer), "\\u%04x", static_cast<unsigned>(unit));
  out->append(buffer);
}

void AppendJsonString(std::string_view text, bool ensure_ascii, std::string* out) {
  out->push_back('"');
  for (size_t offset = 0; offset < text.size();) {
    const size_t start = offset;
    const char32_t c = NextCodePoint(text, &offset);
    switch (c) {
      case '"':
        out->append("\\\"");
        continue;
      case '\\':
        out->append("\\\\");
        continue;
      case '\n':
        out->append("\\n");
        continue;
      case '\r':
        out->append("\\r");
        continue;
      case '\t':
        out->append("\\t");
        continue;
      case '\b':
        out->append("\\b");
        continue;
      case '\f':
        out->append("\\f");
        continue;
      default:
        break;
    }
    if (c < 0x20 || (ensure_ascii && c >= 0x7F && c < 0x10000)) {
      AppendUnicodeEscape(c, out);
    } else if (ensure_ascii && c >= 0x10000) {
      AppendUnicodeEscape(0xD800 + ((c - 0x10000) >> 10), out);
      AppendUnicodeEscape(0xDC00 + ((c - 0x10000) & 0x3FF), out);
    } else {
      out->append(text.substr(start, offset - start));
    }
  }
  out->push_back('"');
}

std::string JsonFloat(double d) {
  if (std::isnan(d)) return "NaN";
  if (std::isinf(d)) return d > 0 ? "Infinity" : "-Infinity";
  return FloatRepr(d);
}

class JsonPrinter {
 public:
  JsonPrinter(Runtime& runtime, const JsonStyle& style, std::string* out)
      : runtime_(runtime), style_(style), out_(out) {}

  void Print(const Value& value) {
    if (!runtime_.Charge(1)) return;
    if (value.is_none()) return Put("null");
    if (const bool* b = value.boolean()) return Put(*b ? "true" : "false");
    if (const int64_t* i = value.As<int64_t>()) return Put(std::to_string(*i));
    if (const double* d = value.real()) return Put(JsonFloat(*d));
    if (const String* text = value.string()) return PutString(text->text);
    const List* list = value.list();
    if (list && (list->kind == List::Kind::kList || list->is_tuple())) return PrintList(*list);
    if (const Dict* dict = value.dict()) return PrintDict(*dict);
    runtime_.Fail("Object of type " + value.TypeName() + " is not JSON serializable");
  }

 private:
  void PrintList(const List& list) {
    if (list.items.empty()) return Put("[]");
    Put("[");
    ++level_;
    for (size_t i = 0; i < list.items.size() && runtime_.ok(); ++i) {
      Separate(i == 0);
      Print(list.items[i]);
    }
    --level_;
    Newline();
    Put("]");
  }

  void PrintDict(const Dict& dict) {
    if (dict.size() == 0) return Put("{}");
    std::vector<const Dict::Entry*> entries;
    for (const Dict::Entry& entry : dict.entries()) entries.push_back(&entry);
    if (style_.sort_keys && !Sort(&entries)) return;
    Put("{");
    ++level_;
    for (size_t i = 0; i < entries.size() && runtime_.ok(); ++i) {
      Separate(i == 0);
      PrintKey(entries[i]->first);
      Put(style_.key_separator);
      Print(entries[i]->second);
    }
    --level_;
    Newline();
    Put("}");
  }

  bool Sort(std::vector<const Dict::Entry*>* entries) {
    for (const Dict::Entry* entry : *entries) {
      if (!entry->first.string()) {
        runtime_.Fail("tojson with sort_keys: all keys must be strings");
        return false;
      }
    }
    std::stable_sort(entries->begin(), entries->end(), [](const auto* a, const auto* b) {
      return a->first.string()->text < b->first.string()->text;
    });
    return true;
  }

  void PrintKey(const Value& key) {
    if (const String* text = key.string()) return PutString(text->text);
    if (key.is_undefined()) {
      runtime_.Fail("keys must be str, int, float, bool or None, not Undefined");
      return;
    }
    std::string text;
    JsonPrinter(runtime_, style_, &text).Print(key);
    PutString(text);
  }

  void Separate(bool first) {
    if (!first) Put(style_.item_separator);
    Newline();
  }

  void Newline() {
    if (!style_.pretty) return;
    Put("\n");
    for (int i = 0; i < level_ && runtime_.ok(); ++i) Put(style_.indent);
  }

  void PutString(std::string_view text) {
    // The longest escape is twelve characters for one of at least one byte, checked before it is
    // made.
    if (!runtime_.MayHold(out_->size() + text.size()) || !runtime_.ChargeBytes(text.size())) return;
    std::string quoted;
    AppendJsonString(text, style_.ensure_ascii, &quoted);
    Put(quoted);
  }

  void Put(std::string_view piece) { Append(runtime_, piece, out_); }

  Runtime& runtime_;
  const JsonStyle& style_;
  std::string* out_;
  int level_ = 0;
};

}  // namespace

std::string FloatRepr(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d > 0 ? "inf" : "-inf";
  char buffer[64];
  const auto result =
      std::to_chars(buffer, buffer + sizeof(buffer), d, std::chars_format::scientific);
  const std::string_view text(buffer, static_cast<size_t>(result.ptr - buffer));
  const size_t e = text.find('e');
  int exponent = 0;
  const char* exponent_begin = text.data() + e + 1 + (text[e + 1] == '+' ? 1 : 0);
  std::from_chars(exponent_begin, text.data() + text.size(), exponent);

  std::string digits;
  std::string out;
  for (char c : text.substr(0, e)) {
    if (c == '-') {
      out.push_back(c);
    } else if (c != '.') {
      digits.push_back(c);
    }
  }
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits.substr(0, 1);
    if (count > 1) out += "." + digits.substr(1);
    char tail[16];
    std::snprintf(tail, sizeof(tail), "e%c%02d", exponent < 0 ? '-' : '+', std::abs(exponent));
    return out + tail;
  }
  if (exponent < 0)
    return out + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  if (exponent + 1 >= count) {
    return out + digits + std::string(static_cast<size_t>(exponent + 1 - count), '0') + ".0";
  }
  return out + digits.substr(0, exponent + 1) + "." + digits.substr(exponent + 1);
}

void AppendTextRepr(std::string_view text, std::string* out) {
  const bool double_quotes =
      text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = double_quotes ? '"' : '\'';
  out->push_back(quote);
  for (size_t offset = 0; offset < text.size();) {
    const size_t start = offset;
    const char32_t c = NextCodePoint(text, &offset);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out->push_back('\\');
      out->push_back(static_cast<char>(c));
    } else if (c == '\n') {
      out->append("\\n");
    } else if (c == '\r') {
      out->append("\\r");
    } else if (c == '\t') {
      out->append("\\t");
    } else if (IsPrintable(c)) {
      out->append(text.substr(start, offset - start));
    } else {
      char buffer[16];
      const char* format = c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x";
      std::snprintf(buffer, sizeof(buffer), format, static_cast<unsigned>(c));
      out->append(buffer);
    }
  }
  out->push_back(quote);
}

void AppendStr(Runtime& runtime, const Value& value, std::string* out) {
  if (value.is_undefined()) return;
  if (const String* text = value.string()) {
    Append(runtime, text->text, out);
    return;
  }
  AppendRepr(runtime, value, out);
}

void AppendRepr(Runtime& runtime, const Value& value, std::string* out) {
  ReprPrinter(runtime, out).Print(value);
}

std::string ToStr(Runtime& runtime, const Value& value) {
  std::string out;
  AppendStr(runtime, value, &out);
  return out;
}

void AppendJson(Runtime& runtime, const Value& value, const JsonStyle& style, std::string* out) {
  JsonPrinter(runtime, style, out).Print(value);
}

}  // namespace sluice::engine::jinja
