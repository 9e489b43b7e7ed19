#include <algorithm>
#include <array>

#include "engine/template/builtins/format_method.h"
#include "engine/template/builtins/parameters.h"
#include "engine/template/builtins/registry.h"
#include "engine/template/builtins/text_search.h"
#include "engine/template/value/operations.h"
#include "engine/template/value/print.h"
#include "engine/template/value/text.h"

// Filters that turn their input into text first.
namespace sluice::engine::jinja {
namespace {

// The title filter's words begin after white space and - ( { [ <, unlike those of str.title.
std::string TitleWords(std::string_view text) {
  std::string out;
  const auto flush = [&](std::string_view word) {
    if (word.empty()) return;
    size_t first = 0;
    NextCodePoint(word, &first);
    out += ToUpper(word.substr(0, first));
    out += ToLower(word.substr(first));
  };
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t start = at;
    const char32_t c = NextCodePoint(text, &at);
    if (!IsSpace(c) && c != '-' && c != '(' && c != '{' && c != '[' && c != '<') continue;
    flush(text.substr(begin, start - begin));
    out += text.substr(start, at - start);
    begin = at;
  }
  flush(text.substr(begin));
  return out;
}

bool IsSafe(const Value& value) { return value.string() && value.string()->escaped; }

// A filter without arguments that maps the input's text.
template <std::string (*Map)(std::string_view)>
Value Mapped(Runtime& runtime, const Value& input, Arguments& arguments) {
  if (!Parameters(runtime, "filter", arguments, {}).ok()) return Value();
  const std::string text = ToStr(runtime, input);
  // The title filter puts words together, which are plain text then.
  return runtime.ok() ? runtime.MakeText(Map(text), Map != TitleWords && IsSafe(input)) : Value();
}

Value Trim(Runtime& runtime, const Value& input, Arguments& arguments) {
  Parameters parameters(runtime, "trim", arguments, {"chars"});
  const bool has_chars = parameters.ok() && parameters[0] && !parameters[0]->is_none();
  const std::string chars = has_chars ? parameters.Text(0, "") : "";
  const std::string text = ToStr(runtime, input);
  if (!parameters.ok() || !runtime.ChargeBytes(text.size() + 16 * chars.size())) return Value();
  const std::string_view view = chars;
  return runtime.MakeText(std::string(Strip(text, has_chars ? &view : nullptr, StripSides::kBoth)),
                          IsSafe(input));
}

Value StringFilter(Runtime& runtime, const Value& input, Arguments& arguments) {
  if (!Parameters(runtime, "string", arguments, {}).ok()) return Value();
  return input.string() ? input : runtime.MakeText(ToStr(runtime, input));
}

Value Safe(Runtime& runtime, const Value& input, Arguments& arguments) {
  if (!Parameters(runtime, "safe", arguments, {}).ok()) return Value();
  return runtime.MakeText(ToStr(runtime, input), true);
}

Value ForceEscape(Runtime& runtime, const Value& input, Arguments& arguments) {
  if (!Parameters(runtime, "escape", arguments, {}).ok()) return Value();
  const std::string text = ToStr(runtime, input);
  return runtime.MakeText(EscapeHtml(text), true);
}

Value Escape(Runtime& runtime, const Value& input, Arguments& arguments) {
  const String* text = input.string();
  return text && text->escaped ? input : ForceEscape(runtime, input, arguments);
}

Value Replace(Runtime& runtime, const Value& input, Arguments& arguments) {
  Parameters parameters(runtime, "replace", arguments, {"old", "new", "count"}, 2);
  if (!parameters.ok()) return Value();
  const std::string text = ToStr(runtime, input);
  const std::string from = ToStr(runtime, *parameters[0]), to = ToStr(runtime, *parameters[1]);
  const bool limited = parameters[2] && !parameters[2]->is_none();
  const int64_t limit = limited ? parameters.Integer(2, -1) : -1;
  return parameters.ok() && runtime.ok() ? ReplaceText(runtime, text, {from, to, limit}) : Value();
}

Value Format(Runtime& runtime, const Value& input, Arguments& arguments) {
  if (!arguments.named.empty() && !arguments.positional.empty()) {
    return runtime.Fail("format can't handle positional and keyword arguments at the same time");
  }
  const std::string format = ToStr(runtime, input);
  if (arguments.named.empty()) {
    return PercentFormat(runtime, format,
                         runtime.MakeList(arguments.positional, List::Kind::kTuple));
  }
  Dict named;
  for (const auto& [name, value] : arguments.named) named.Set(Value::Text(name), value);
  return PercentFormat(runtime, format, runtime.MakeDict(std::move(named)));
}

// What indents a line: a number of spaces, or the text itself.
std::string Indentation(Runtime& runtime, Parameters& parameters) {
  if (parameters[0] && parameters[0]->string()) return parameters[0]->string()->text;
  const int64_t width = std::max<int64_t>(parameters.Integer(0, 4), 0);
  return runtime.MayHold(static_cast<size_t>(width)) ? std::string(static_cast<size_t>(width), ' ')
                                                     : "";
}

Value Indent(Runtime& runtime, const Value& input, Arguments& arguments) {
  Parameters parameters(runtime, "indent", arguments, {"width", "first", "blank"});
  if (!parameters.ok()) return Value();
  const std::string indentation = Indentation(runtime, parameters);
  if (input.is_undefined()) return FailUndefined(runtime, input);
  if (!input.string()) return runtime.Fail("indent needs a string, got " + input.TypeName());
  if (!runtime.ok() || !parameters.ok()) return Value();
  const std::string text = input.string()->text + "\n";
  const bool first = parameters.Flag(1, false), blank = parameters.Flag(2, false);
  std::string out;
  bool first_line = true;
  for (std::string_view line : SplitLines(text, false)) {
    const bool indented = first_line ? first : blank || !line.empty();
    const size_t added = line.size() + indentation.size() + 1;
    if (!runtime.MayHold(out.size() + added) || !runtime.ChargeBytes(added)) return Value();
    if (!first_line) out += '\n';
    if (indented) out += indentation;
    out += line;
    first_line = false;
  }
  return runtime.MakeText(std::move(out));
}

Value Truncate(Runtime& runtime, const Value& input, Arguments& arguments) {
  Parameters parameters(runtime, "truncate", arguments, {"length", "killwords", "end", "leeway"});
  if (!parameters.ok()) return Value();
  const int64_t length = parameters.Integer(0, 255);
  const std::string end = parameters.Text(2, "...");
  const bool has_leeway = parameters[3] && !parameters[3]->is_none();
  const int64_t leeway = has_leeway ? parameters.Integer(3, 5) : 5;
  if (!parameters.ok()) return Value();
  const int64_t kept = length - CodePointCount(end);
  if (kept < 0) return runtime.Fail("truncate: the length is less than that of the end");
  if (leeway < 0) return runtime.Fail("truncate: the leeway is negative");
  const std::optional<int64_t> input_length = Length(input);
  if (!input_length) return runtime.Fail("'" + input.TypeName() + "' object has no len()");
  if (*input_length - leeway <= length) return input;
  const String* text = input.string();
  if (!text) return runtime.Fail("truncate needs a string, got " + input.TypeName());
  std::string_view head = std::string_view(text->text).substr(0, OffsetOfIndex(text->text, kept));
  if (!parameters.Flag(1, false)) head = head.substr(0, std::min(head.rfind(' '), head.size()));
  return runtime.MakeText(std::string(head) + end);
}

Value WordCount(Runtime& runtime, const Value& input, Arguments& arguments) {
  if (!Parameters(runtime, "wordcount", arguments, {}).ok()) return Value();
  const std::string text = ToStr(runtime, input);
  int64_t count = 0;
  bool in_word = false;
  for (size_t at = 0; at < text.size();) {
    const bool word = IsWord(NextCodePoint(text, &at));
    count += word && !in_word;
    in_word = word;
  }
  return Value(count);
}

Value Center(Runtime& runtime, const Value& input, Arguments& arguments) {
  Parameters parameters(runtime, "center", arguments, {"width"});
  if (!parameters.ok()) return Value();
  Arguments padding;
  padding.positional.push_back(parameters[0] ? *parameters[0] : Value(int64_t{80}));
  const Value text = runtime.MakeText(ToStr(runtime, input));
  return runtime.ok() ? FindStringMethod("center")(runtime, text, padding) : Value();
}

bool JsonIndent(Runtime& runtime, const Value& indent, JsonStyle* style) {
  style->pretty = true;
  style->item_separator = ",";
  int64_t spaces = 0;
  if (const String* text = indent.string()) {
    style->indent = text->text;
  } else if (indent.ToInteger(&spaces)) {
    if (spaces > 0 && runtime.MayHold(static_cast<size_t>(spaces)))
      style->indent.assign(spaces, ' ');
  } else {
    runtime.Fail("tojson: indent must be an integer or a string, not " + indent.TypeName());
  }
  return runtime.ok();
}

Value ToJson(Runtime& runtime, const Value& input, Arguments& arguments) {
  Parameters parameters(runtime, "tojson", arguments,
                        {"ensure_ascii", "indent", "separators", "sort_keys"});
  if (!parameters.ok()) return Value();
  JsonStyle style;
  style.ensure_ascii = parameters.Flag(0, false);
  style.sort_keys = parameters.Flag(3, false);
  if (parameters[1] && !parameters[1]->is_none() && !JsonIndent(runtime, *parameters[1], &style)) {
    return Value();
  }
  if (parameters[2] && !parameters[2]->is_none()) {
    std::vector<Value> separators;
    if (!Iterate(runtime, *parameters[2], &separators)) return Value();
    if (separators.size() != 2 || !separators[0].string() || !separators[1].string()) {
      return runtime.Fail("tojson: separators must be two strings");
    }
    style.item_separator = separators[0].string()->text;
    style.key_separator = separators[1].string()->text;
  }
  std::string out;
  AppendJson(runtime, input, style, &out);
  return runtime.ok() ? runtime.MakeText(std::move(out)) : Value();
}

constexpr std::array<std::pair<std::string_view, Filter>, 17> kFilters = {{
    {"trim", Trim},
    {"upper", Mapped<ToUpper>},
    {"lower", Mapped<ToLower>},
    {"title", Mapped<TitleWords>},
    {"capitalize", Mapped<Capitalize>},
    {"string", StringFilter},
    {"safe", Safe},
    {"escape", Escape},
    {"e", Escape},
    {"forceescape", ForceEscape},
    {"replace", Replace},
    {"format", Format},
    {"indent", Indent},
    {"truncate", Truncate},
    {"wordcount", WordCount},
    {"center", Center},
    {"tojson", ToJson},
}};

}  // namespace

Filter FindTextFilter(std::string_view name) {
  for (const auto& [key, filter] : kFilters) {
    if (key == name) return filter;
  }
  return nullptr;
}

Filter FindFilter(std::string_view name) {
  for (const auto find :
       {FindTextFilter, FindSequenceFilter, FindSelectionFilter, FindNumberFilter}) {
    if (const Filter filter = find(name)) return filter;
  }
  return nullptr;
}

}  // namespace sluice::engine::jinja
