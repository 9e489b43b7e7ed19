#include <algorithm>
#include <cmath>
#include <cstdio>

#include "engine/template/value/operations.h"
#include "engine/template/value/print.h"
#include "engine/template/value/text.h"

// Python's % on strings: "%s of %d" % (a, b) and "%(name)s" % mapping.
namespace sluice::engine::jinja {
namespace {

constexpr int64_t kPrecisionMax = 200;  // more digits than a double has an answer for

struct Conversion {
  bool left = false, plus = false, space = false, zero = false, alternate = false;
  int64_t width = 0;
  int64_t precision = -1;
  char type = 0;
};

class Formatter {
 public:
  Formatter(Runtime& runtime, std::string_view format, const Value& arguments)
      : runtime_(runtime), format_(format), arguments_(arguments) {
    const List* list = arguments.list();
    tuple_ = list && list->is_tuple() ? list : nullptr;
    // A list counts as a mapping here, as Python's check for one only looks for subscripts.
    mapping_ =
        arguments.dict() || (list && !tuple_ && list->is_sequence()) || arguments.is_undefined();
  }

  Value Run() {
    while (at_ < format_.size() && runtime_.ok()) {
      const size_t percent = std::min(format_.find('%', at_), format_.size());
      Put(format_.substr(at_, percent - at_));
      at_ = percent;
      if (at_ < format_.size()) {
        ++at_;
        FormatOne();
      }
    }
    const size_t given = tuple_ ? tuple_->items.size() : 1;
    if (runtime_.ok() && !mapping_ && used_ < given) {
      return runtime_.Fail("not all arguments converted during string formatting");
    }
    return runtime_.ok() ? runtime_.MakeText(std::move(out_)) : Value();
  }

 private:
  void FormatOne() {
    Conversion conversion;
    Value named;
    const bool has_name = at_ < format_.size() && format_[at_] == '(';
    if (has_name && !ParseName(&named)) return;
    ParseFlags(&conversion);
    if (!ParseNumber(&conversion.width, &conversion)) return;
    if (at_ < format_.size() && format_[at_] == '.') {
      ++at_;
      conversion.precision = 0;
      if (!ParseNumber(&conversion.precision, nullptr)) return;
    }
    while (at_ < format_.size() &&
           (format_[at_] == 'l' || format_[at_] == 'h' || format_[at_] == 'L')) {
      ++at_;
    }
    if (at_ >= format_.size()) {
      runtime_.Fail("incomplete format");
      return;
    }
    conversion.type = format_[at_++];
    if (conversion.type == '%') return Put("%");
    const Value value = has_name ? named : NextArgument();
    if (runtime_.ok()) Convert(conversion, value);
  }

  bool ParseName(Value* out) {
    const Dict* dict = arguments_.dict();
    const size_t close = format_.find(')', at_);
    if (!dict || close == std::string_view::npos) {
      runtime_.Fail(dict ? "incomplete format key" : "format requires a mapping");
      return false;
    }
    const std::string_view name = format_.substr(at_ + 1, close - at_ - 1);
    at_ = close + 1;
    const Value* value = dict->Find(name);
    if (!value) {
      runtime_.Fail("format names the key '" + std::string(name) + "', which is not there");
      return false;
    }
    *out = *value;
    return true;
  }

  void ParseFlags(Conversion* conversion) {
    for (; at_ < format_.size(); ++at_) {
      switch (format_[at_]) {
        case '-':
          conversion->left = true;
          break;
        case '+':
          conversion->plus = true;
          break;
        case ' ':
          conversion->space = true;
          break;
        case '0':
          conversion->zero = true;
          break;
        case '#':
          conversion->alternate = true;
          break;
        default:
          return;
      }
    }
  }

  // A width or precision, written out or taken from the arguments by a star.
  bool ParseNumber(int64_t* out, Conversion* conversion) {
    if (at_ < format_.size() && format_[at_] == '*') {
      ++at_;
      const Value value = NextArgument();
      if (!runtime_.ok()) return false;
      if (!value.ToInteger(out)) {
        runtime_.Fail("* wants int");
        return false;
      }
      if (*out < 0 && conversion) {
        conversion->left = true;
        *out = -std::max(*out, -int64_t{1} << 40);
      }
      *out = std::max<int64_t>(*out, 0);
      return true;
    }
    while (at_ < format_.size() && format_[at_] >= '0' && format_[at_] <= '9') {
      *out = std::min<int64_t>(*out * 10 + (format_[at_++] - '0'), int64_t{1} << 40);
    }
    return true;
  }

  Value NextArgument() {
    const size_t given = tuple_ ? tuple_->items.size() : 1;
    if (used_ >= given) return runtime_.Fail("not enough arguments for format string");
    ++used_;
    return tuple_ ? tuple_->items[used_ - 1] : arguments_;
  }

  void Convert(const Conversion& conversion, const Value& value) {
    switch (conversion.type) {
      case 's':
      case 'r':
        return ConvertText(conversion, value);
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        return ConvertInteger(conversion, value);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        return ConvertFloat(conversion, value);
      case 'c':
        return ConvertCharacter(conversion, value);
      default:
        runtime_.Fail(std::string("unsupported format character '") + conversion.type + "'");
    }
  }

  void ConvertText(const Conversion& conversion, const Value& value) {
    std::string text;
    if (conversion.type == 's') {
      AppendStr(runtime_, value, &text);
    } else {
      AppendRepr(runtime_, value, &text);
    }
    if (conversion.precision >= 0) text.resize(OffsetOfIndex(text, conversion.precision));
    Pad(conversion, "", text);
  }

  void ConvertInteger(const Conversion& conversion, const Value& value) {
    int64_t number = 0;
    const double* real = value.real();
    const bool decimal = conversion.type == 'd' || conversion.type == 'i' || conversion.type == 'u';
    if (real && decimal && std::abs(*real) < 9e18) {
      number = static_cast<int64_t>(*real);
    } else if (!value.ToInteger(&number)) {
      runtime_.Fail(std::string("%") + conversion.type + " format: a number is required, not " +
                    value.TypeName());
      return;
    }
    const uint64_t magnitude =
        number < 0 ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
    char buffer[32];
    const char* format = conversion.type == 'x'   ? "%lx"
                         : conversion.type == 'X' ? "%lX"
                         : conversion.type == 'o' ? "%lo"
                                                  : "%lu";
    std::snprintf(buffer, sizeof(buffer), format, static_cast<unsigned long>(magnitude));
    std::string digits = buffer;
    if (conversion.precision > static_cast<int64_t>(digits.size())) {
      const int64_t precision = std::min(conversion.precision, kPrecisionMax);
      digits.insert(0, std::max<int64_t>(precision - static_cast<int64_t>(digits.size()), 0), '0');
    }
    std::string prefix = Sign(conversion, number < 0);
    if (conversion.alternate && !decimal) prefix += std::string("0") + conversion.type;
    Pad(conversion, prefix, digits);
  }

  void ConvertFloat(const Conversion& conversion, const Value& value) {
    double number;
    if (!value.ToDouble(&number)) {
      runtime_.Fail("must be real number, not " + value.TypeName());
      return;
    }
    const char format[] = {'%', '.', '*', static_cast<char>(conversion.type), 0};
    const int precision = static_cast<int>(
        std::min(conversion.precision < 0 ? 6 : conversion.precision, kPrecisionMax));
    char buffer[600];
    std::snprintf(buffer, sizeof(buffer), format, precision, std::abs(number));
    Pad(conversion, Sign(conversion, std::signbit(number) && !std::isnan(number)), buffer);
  }

  void ConvertCharacter(const Conversion& conversion, const Value& value) {
    int64_t code;
    std::string text;
    if (value.string() && value.string()->length == 1) {
      text = value.string()->text;
    } else if (value.ToInteger(&code) && code >= 0 && code < 0x110000 &&
               !(code >= 0xD800 && code <= 0xDFFF)) {
      AppendUtf8(static_cast<char32_t>(code), &text);
    } else {
      runtime_.Fail("%c requires int or char");
      return;
    }
    Pad(conversion, "", text);
  }

  static std::string Sign(const Conversion& conversion, bool negative) {
    return negative ? "-" : conversion.plus ? "+" : conversion.space ? " " : "";
  }

  void Pad(const Conversion& conversion, const std::string& prefix, const std::string& body) {
    const int64_t length = CodePointCount(prefix) + CodePointCount(body);
    const int64_t missing = std::max<int64_t>(conversion.width - length, 0);
    if (!runtime_.MayHold(out_.size() + static_cast<size_t>(missing))) return;
    const std::string padding(static_cast<size_t>(missing), ' ');
    const bool text = conversion.type == 's' || conversion.type == 'r' || conversion.type == 'c';
    if (conversion.left) {
      Put(prefix + body + padding);
    } else if (conversion.zero && !text) {
      Put(prefix + std::string(static_cast<size_t>(missing), '0') + body);
    } else {
      Put(padding + prefix + body);
    }
  }

  void Put(std::string_view piece) {
    if (runtime_.MayHold(out_.size() + piece.size()) && runtime_.ChargeBytes(piece.size())) {
      out_.append(piece);
    }
  }

  Runtime& runtime_;
  std::string_view format_;
  const Value& arguments_;
  const List* tuple_ = nullptr;
  bool mapping_ = false;
  size_t at_ = 0;
  size_t used_ = 0;
  std::string out_;
};

}  // namespace

Value PercentFormat(Runtime& runtime, std::string_view format, const Value& arguments) {
  return Formatter(runtime, format, arguments).Run();
}

}  // namespace sluice::engine::jinja
