#pragma once

#include <string>
#include <string_view>

#include "engine/template/value/runtime.h"

// Values as text: Python's str and repr, and JSON as json.dumps writes it. All append to *out,
// spend work for what they write, and stop when a budget is used up.
namespace sluice::engine::jinja {

void AppendStr(Runtime& runtime, const Value& value, std::string* out);
void AppendRepr(Runtime& runtime, const Value& value, std::string* out);
std::string ToStr(Runtime& runtime, const Value& value);

// The shortest decimal that reads back as `d`, laid out as Python's repr.
std::string FloatRepr(double d);
void AppendTextRepr(std::string_view text, std::string* out);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool pretty = false;  // one item a line, each level indented by `indent`
  std::string indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

void AppendJson(Runtime& runtime, const Value& value, const JsonStyle& style, std::string* out);

}  // namespace sluice::engine::jinja
