#include "engine/template/builtins/format_method.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "engine/template/builtins/registry.h"
#include "engine/template/builtins/text_search.h"
#include "engine/template/value/operations.h"
#include "engine/template/value/print.h"
#include "engine/template/value/text.h"

namespace sluice::engine::jinja {
namespace {

constexpr int64_t kPrecisionMax = 200;

struct Specification {
  std::string fill = " ";
  char align = 0, sign = '-', type = 0;
  bool comma = false;
  int64_t width = 0, precision = -1;
};

bool IsAlign(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

bool ParseNumber(std::string_view* text, int64_t* out) {
  bool any = false;
  for (; !text->empty() && text->front() >= '0' && text->front() <= '9'; text->remove_prefix(1)) {
    *out = std::min<int64_t>((any ? *out : 0) * 10 + (text->front() - '0'), int64_t{1} << 40);
    any = true;
  }
  return any;
}

bool ParseSpecification(std::string_view text, Specification* out) {
  size_t first = 0;
  if (!text.empty()) NextCodePoint(text, &first);
  if (first < text.size() && IsAlign(text[first])) {
    out->fill = text.substr(0, first);
    out->align = text[first];
    text.remove_prefix(first + 1);
  } else if (!text.empty() && IsAlign(text[0])) {
    out->align = text[0];
    text.remove_prefix(1);
  }
  if (!text.empty() && (text[0] == '+' || text[0] == '-' || text[0] == ' ')) {
    out->sign = text[0];
    text.remove_prefix(1);
  }
  if (!text.empty() && text[0] == '0' && !out->align) {
    out->fill = "0";
    out->align = '=';
    text.remove_prefix(1);
  }
  ParseNumber(&text, &out->width);
  if (!text.empty() && text[0] == ',') {
    out->comma = true;
    text.remove_prefix(1);
  }
  if (!text.empty() && text[0] == '.') {
    text.remove_prefix(1);
    if (!ParseNumber(&text, &out->precision)) return false;
  }
  if (!text.empty()) {
    out->type = text[0];
    text.remove_prefix(1);
  }
  return text.empty();
}

void InsertCommas(std::string* digits) {
  const size_t whole = std::min(digits->find_first_not_of("0123456789"), digits->size());
  for (size_t i = whole; i > 3; i -= 3) digits->insert(i - 3, ",");
}

std::string IntegerDigits(uint64_t magnitude, char type) {
  const unsigned base = type == 'x' || type == 'X' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
  const char* symbols = type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string digits;
  do {
    digits.insert(digits.begin(), symbols[magnitude % base]);
    magnitude /= base;
  } while (magnitude != 0);
  return digits;
}

std::string FloatDigits(double magnitude, const Specification& spec) {
  if (!spec.type && spec.precision < 0) return FloatRepr(magnitude);
  const bool percent = spec.type == '%';
  const char conversion = percent ? 'f' : spec.type ? spec.type : 'g';
  const char format[] = {'%', '.', '*', conversion, 0};
  const int64_t precision = std::min(spec.precision < 0 ? 6 : spec.precision, kPrecisionMax);
  char buffer[600];
  std::snprintf(buffer, sizeof(buffer), format, static_cast<int>(precision),
                percent ? magnitude * 100 : magnitude);
  std::string digits = buffer;
  if (!spec.type && digits.find_first_of(".en") == std::string::npos) digits += ".0";
  return percent ? digits + "%" : digits;
}

class FormatMethod {
 public:
  FormatMethod(Runtime& runtime, const Arguments& arguments)
      : runtime_(runtime), arguments_(arguments) {}

  Value Run(std::string_view format) {
    for (size_t at = 0; at < format.size() && runtime_.ok();) {
      const size_t brace = std::min(format.find_first_of("{}", at), format.size());
      Put(format.substr(at, brace - at));
      if (brace == format.size()) break;
      if (format.substr(brace, 2) == "{{" || format.substr(brace, 2) == "}}") {
        Put(format.substr(brace, 1));
        at = brace + 2;
        continue;
      }
      const size_t close = format.find('}', brace);
      if (format[brace] == '}' || close == std::string_view::npos) {
        return runtime_.Fail("single '" + std::string(1, format[brace]) +
                             "' encountered in format string");
      }
      FormatField(format.substr(brace + 1, close - brace - 1));
      at = close + 1;
    }
    return runtime_.ok() ? runtime_.MakeText(std::move(out_)) : Value();
  }

 private:
  void FormatField(std::string_view field) {
    const size_t colon = std::min(field.find(':'), field.size());
    std::string_view name = field.substr(0, colon);
    const std::string_view spec_text = field.substr(std::min(colon + 1, field.size()));
    char conversion = 0;
    if (const size_t bang = name.find('!'); bang != std::string_view::npos) {
      if (name.size() != bang + 2 || (name[bang + 1] != 's' && name[bang + 1] != 'r')) {
        runtime_.Fail("expected !s or !r in a format field");
        return;
      }
      conversion = name[bang + 1];
      name = name.substr(0, bang);
    }
    if (spec_text.find('{') != std::string_view::npos) {
      runtime_.Fail("nested format fields are not supported");
      return;
    }
    Value value = FindField(name);
    if (!runtime_.ok()) return;
    if (conversion) {
      std::string text;
      conversion == 'r' ? AppendRepr(runtime_, value, &text) : AppendStr(runtime_, value, &text);
      value = runtime_.MakeText(std::move(text));
    }
    Specification spec;
    if (!ParseSpecification(spec_text, &spec)) {
      runtime_.Fail("invalid format specifier '" + std::string(spec_text) + "'");
      return;
    }
    FormatValue(value, spec, spec_text.empty());
  }

  // The argument that a field names, and the attributes and items that follow.
  Value FindField(std::string_view name) {
    const size_t end = std::min(name.find_first_of(".["), name.size());
    Value value = FindArgument(name.substr(0, end));
    for (size_t at = end; at < name.size() && runtime_.ok();) {
      if (name[at] == '.') {
        const size_t next = std::min(name.find_first_of(".[", at + 1), name.size());
        value = GetAttribute(runtime_, value, name.substr(at + 1, next - at - 1));
        at = next;
        continue;
      }
      const size_t close = name.find(']', at);
      if (name[at] != '[' || close == std::string_view::npos) {
        return runtime_.Fail("expected ']' in a format field");
      }
      std::string_view key = name.substr(at + 1, close - at - 1);
      int64_t index = 0;
      std::string_view digits = key;
      const bool number = ParseNumber(&digits, &index) && digits.empty();
      value = GetItem(runtime_, value, number ? Value(index) : runtime_.MakeText(key));
      at = close + 1;
    }
    return value;
  }

  Value FindArgument(std::string_view name) {
    int64_t index = 0;
    std::string_view digits = name;
    const bool automatic = name.empty();
    const bool numbered = automatic || (ParseNumber(&digits, &index) && digits.empty());
    if (automatic) index = next_;
    if (numbered && (automatic ? by_number_ : next_ > 0)) {
      return runtime_.Fail("a format can't number some fields and leave others to be counted");
    }
    if (automatic) {
      ++next_;
    } else if (numbered) {
      by_number_ = true;
    } else {
      for (const auto& [key, value] : arguments_.named) {
        if (key == name) return value;
      }
      return runtime_.Fail("format() has no argument '" + std::string(name) + "'");
    }
    if (index >= static_cast<int64_t>(arguments_.positional.size())) {
      return runtime_.Fail("Replacement index " + std::to_string(index) +
                           " out of range for positional args tuple");
    }
    return arguments_.positional[static_cast<size_t>(index)];
  }

  void FormatValue(const Value& value, const Specification& spec, bool plain) {
    int64_t integer;
    const std::string_view float_types = "fFeEgG%";
    const bool float_type = spec.type && float_types.find(spec.type) != std::string_view::npos;
    if (plain) {
      std::string text;
      AppendStr(runtime_, value, &text);
      return Put(text);
    }
    if (value.real() || (value.is_integer() && float_type)) {
      double number = 0;
      value.ToDouble(&number);
      if (spec.type && !float_type) return BadType(value, spec);
      return Number(std::signbit(number), FloatDigits(std::abs(number), spec), spec);
    }
    if (value.ToInteger(&integer)) {
      if (spec.type && std::string_view("dxXob").find(spec.type) == std::string_view::npos) {
        return BadType(value, spec);
      }
      const uint64_t magnitude =
          integer < 0 ? 0 - static_cast<uint64_t>(integer) : static_cast<uint64_t>(integer);
      return Number(integer < 0, IntegerDigits(magnitude, spec.type), spec);
    }
    if (!value.string() || (spec.type && spec.type != 's') || spec.align == '=') {
      return BadType(value, spec);
    }
    std::string text = value.string()->text;
    if (spec.precision >= 0) text.resize(OffsetOfIndex(text, spec.precision));
    Align("", text, spec, '<');
  }

  void BadType(const Value& value, const Specification& spec) {
    runtime_.Fail("unsupported format string for " + value.TypeName() +
                  (spec.type ? std::string(": '") + spec.type + "'" : ""));
  }

  void Number(bool negative, std::string digits, const Specification& spec) {
    if (spec.comma) InsertCommas(&digits);
    const std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
    Align(sign, digits, spec, '>');
  }

  void Align(const std::string& sign, const std::string& body, const Specification& spec,
             char default_align) {
    const char align = spec.align ? spec.align : default_align;
    const int64_t length = static_cast<int64_t>(sign.size()) + CodePointCount(body);
    const int64_t missing = std::max<int64_t>(spec.width - length, 0);
    if (!runtime_.MayHold(out_.size() + static_cast<size_t>(missing) * spec.fill.size())) return;
    const int64_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
    const auto fill = [&](int64_t count) {
      for (int64_t i = 0; i < count && runtime_.ok(); ++i) Put(spec.fill);
    };
    if (align == '=') Put(sign);
    fill(left);
    if (align != '=') Put(sign);
    Put(body);
    fill(missing - left);
  }

  void Put(std::string_view piece) {
    if (runtime_.MayHold(out_.size() + piece.size()) && runtime_.ChargeBytes(piece.size())) {
      out_.append(piece);
    }
  }

  Runtime& runtime_;
  const Arguments& arguments_;
  int64_t next_ = 0;        // the argument of the next field without a name
  bool by_number_ = false;  // a field has named its argument's number
  std::string out_;
};

}  // namespace

Value FormatText(Runtime& runtime, std::string_view format, const Arguments& arguments) {
  return FormatMethod(runtime, arguments).Run(format);
}

Value ReplaceText(Runtime& runtime, std::string_view text, const Replacement& replacement) {
  const auto& [from, to, limit] = replacement;
  std::string out;
  const auto put = [&](std::string_view piece) {
    if (!runtime.MayHold(out.size() + piece.size()) || !runtime.ChargeBytes(piece.size())) {
      return false;
    }
    out.append(piece);
    return true;
  };
  size_t begin = 0;
  for (int64_t done = 0; limit < 0 || done < limit; ++done) {
    size_t at = begin;
    if (from.empty()) {
      // Python puts the new text before every character, and at the end.
      if (done > 0) {
        if (begin >= text.size()) break;
        NextCodePoint(text, &at);
      }
    } else {
      at = FindFirst(text, from, begin);
      if (at == kNotFound) break;
    }
    if (!put(text.substr(begin, at - begin)) || !put(to)) return Value();
    begin = at + from.size();
  }
  if (!put(text.substr(begin))) return Value();
  return runtime.MakeText(std::move(out));
}

}  // namespace sluice::engine::jinja
