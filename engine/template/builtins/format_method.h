#pragma once

#include <cstdint>
#include <string_view>

#include "engine/template/value/runtime.h"

namespace sluice::engine::jinja {

// Python's str.format: {} {0} {name} {name.attribute} {name[key]}, !s and !r, and format
// specifications of fill, alignment, sign, width, comma, precision and the types s d x X o b f F e
// E g G %.
Value FormatText(Runtime& runtime, std::string_view format, const Arguments& arguments);

struct Replacement {
  std::string_view from, to;
  int64_t limit = -1;  // of replacements; negative: none
};

// Python's str.replace.
Value ReplaceText(Runtime& runtime, std::string_view text, const Replacement& replacement);

}  // namespace sluice::engine::jinja
