#include "engine/template/value/text.h"

#include <algorithm>
#include <vector>

#include "engine/template/value/unicode_tables.h"

namespace sluice::engine::jinja {
namespace {

bool InRanges(const CodePointRange* ranges, size_t count, char32_t c) {
  const CodePointRange* end = ranges + count;
  const CodePointRange* range = std::lower_bound(
      ranges, end, c, [](const CodePointRange& r, char32_t value) { return r.hi < value; });
  return range != end && c >= range->lo && (c - range->lo) % range->stride == 0;
}

struct CaseTable {
  const CaseRange* ranges;
  size_t range_count;
  const CaseExpansion* expansions;
  size_t expansion_count;
};

void AppendMapped(const CaseTable& table, char32_t c, std::string* out) {
  const CaseRange* end = table.ranges + table.range_count;
  const CaseRange* range = std::lower_bound(
      table.ranges, end, c, [](const CaseRange& r, char32_t value) { return r.hi < value; });
  if (range != end && c >= range->lo && (c - range->lo) % range->stride == 0) {
    AppendUtf8(static_cast<char32_t>(static_cast<int64_t>(c) + range->delta), out);
    return;
  }
  for (size_t i = 0; i < table.expansion_count; ++i) {
    if (table.expansions[i].code_point == c) {
      out->append(table.expansions[i].text);
      return;
    }
  }
  AppendUtf8(c, out);
}

const CaseTable kUpperTable = {kToUpper, kToUpperSize, kToUpperExpansions, kToUpperExpansionsSize};
const CaseTable kLowerTable = {kToLower, kToLowerSize, kToLowerExpansions, kToLowerExpansionsSize};
const CaseTable kTitleTable = {kToTitle, kToTitleSize, kToTitleExpansions, kToTitleExpansionsSize};

void AppendUpper(char32_t c, std::string* out) {
  if (c < 0x80) {
    out->push_back(static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c));
  } else {
    AppendMapped(kUpperTable, c, out);
  }
}

bool IsCased(char32_t c) { return IsUpper(c) || IsLower(c) || IsTitle(c); }

// Characters that do not end a word when the last sigma of one is looked for: the common ones.
bool IsCaseIgnorable(char32_t c) {
  return c == '\'' || c == '.' || c == ':' || c == '^' || c == '`' || c == 0xAD || c == 0xB7 ||
         c == 0x2019 || c == 0x200D || (c >= 0x300 && c <= 0x36F);
}

// Greek capital sigma becomes the final form at the end of a word (Unicode's Final_Sigma
// condition).
bool IsFinalSigma(std::string_view text, size_t sigma_offset, bool cased_before) {
  if (!cased_before) return false;
  for (size_t offset = sigma_offset + 2; offset < text.size();) {
    const char32_t c = NextCodePoint(text, &offset);
    if (IsCaseIgnorable(c)) continue;
    return !IsCased(c);
  }
  return true;
}

// Lower-cases one character; `cased_before` says whether the word so far ends in a cased character.
void AppendLower(std::string_view text, size_t offset, char32_t c, bool cased_before,
                 std::string* out) {
  constexpr char32_t kCapitalSigma = 0x3A3;
  if (c < 0x80) {
    out->push_back(static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c));
  } else if (c == kCapitalSigma) {
    AppendUtf8(IsFinalSigma(text, offset, cased_before) ? 0x3C2 : 0x3C3, out);
  } else {
    AppendMapped(kLowerTable, c, out);
  }
}

bool CasedAfter(char32_t c, bool cased_before) {
  return IsCaseIgnorable(c) ? cased_before : IsCased(c);
}

}  // namespace

bool IsAscii(std::string_view text) {
  unsigned char seen = 0;
  for (char c : text) seen |= static_cast<unsigned char>(c);
  return seen < 0x80;
}

bool IsValidUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto byte = [&](size_t k) { return static_cast<unsigned char>(text[k]); };
    const unsigned char lead = byte(i);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    const size_t extra = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
    if (lead < 0xC2 || lead > 0xF4 || text.size() - i <= extra) return false;
    char32_t c = lead & (0x3F >> extra);
    for (size_t k = 1; k <= extra; ++k) {
      if ((byte(i + k) & 0xC0) != 0x80) return false;
      c = (c << 6) | (byte(i + k) & 0x3F);
    }
    if ((extra == 2 && c < 0x800) || (extra == 3 && c < 0x10000) || c > 0x10FFFF) return false;
    if (c >= 0xD800 && c <= 0xDFFF) return false;
    i += extra + 1;
  }
  return true;
}

int64_t CodePointCount(std::string_view text) {
  int64_t count = 0;
  for (char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

char32_t NextCodePoint(std::string_view text, size_t* offset) {
  const auto lead = static_cast<unsigned char>(text[*offset]);
  const size_t extra = lead < 0xC0 ? 0 : lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
  char32_t c = extra == 0 ? lead : lead & (0x3F >> extra);
  ++*offset;
  for (size_t k = 0; k < extra && *offset < text.size(); ++k, ++*offset) {
    c = (c << 6) | (static_cast<unsigned char>(text[*offset]) & 0x3F);
  }
  return c;
}

void AppendUtf8(char32_t c, std::string* out) {
  if (c < 0x80) {
    out->push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    out->push_back(static_cast<char>(0xC0 | (c >> 6)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
  } else if (c < 0x10000) {
    out->push_back(static_cast<char>(0xE0 | (c >> 12)));
    out->push_back(static_cast<char>(0x80 | ((c >> 6) & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
  } else {
    out->push_back(static_cast<char>(0xF0 | (c >> 18)));
    out->push_back(static_cast<char>(0x80 | ((c >> 12) & 0x3F)));
    out->push_back(static_cast<char>(0x80 | ((c >> 6) & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
  }
}

size_t OffsetOfIndex(std::string_view text, int64_t index) {
  size_t offset = 0;
  for (; offset < text.size(); ++offset) {
    if ((static_cast<unsigned char>(text[offset]) & 0xC0) != 0x80 && index-- == 0) return offset;
  }
  return text.size();
}

bool IsSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

bool IsPrintable(char32_t c) {
  if (c < 0x7F) return c >= 0x20;
  return !InRanges(kNotPrintable, kNotPrintableSize, c);
}

bool IsAlpha(char32_t c) { return InRanges(kAlphabetic, kAlphabeticSize, c); }
bool IsNumeric(char32_t c) { return InRanges(kNumeric, kNumericSize, c); }
bool IsDigit(char32_t c) { return InRanges(kDigit, kDigitSize, c); }
bool IsDecimal(char32_t c) { return InRanges(kDecimal, kDecimalSize, c); }
bool IsUpper(char32_t c) { return InRanges(kUppercase, kUppercaseSize, c); }
bool IsLower(char32_t c) { return InRanges(kLowercase, kLowercaseSize, c); }
bool IsTitle(char32_t c) { return InRanges(kTitlecase, kTitlecaseSize, c); }
bool IsWord(char32_t c) { return c == '_' || IsAlpha(c) || IsNumeric(c) || IsDigit(c); }

std::string ToUpper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t offset = 0; offset < text.size();) AppendUpper(NextCodePoint(text, &offset), &out);
  return out;
}

std::string ToLower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool cased = false;
  for (size_t offset = 0; offset < text.size();) {
    const size_t start = offset;
    const char32_t c = NextCodePoint(text, &offset);
    AppendLower(text, start, c, cased, &out);
    cased = CasedAfter(c, cased);
  }
  return out;
}

std::string ToTitle(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool in_word = false;
  bool cased = false;
  for (size_t offset = 0; offset < text.size();) {
    const size_t start = offset;
    const char32_t c = NextCodePoint(text, &offset);
    if (in_word) {
      AppendLower(text, start, c, cased, &out);
    } else {
      AppendMapped(kTitleTable, c, &out);
    }
    in_word = IsCased(c);
    cased = CasedAfter(c, cased);
  }
  return out;
}

std::string Capitalize(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool cased = false;
  for (size_t offset = 0; offset < text.size();) {
    const size_t start = offset;
    const char32_t c = NextCodePoint(text, &offset);
    if (start == 0) {
      AppendMapped(kTitleTable, c, &out);
    } else {
      AppendLower(text, start, c, cased, &out);
    }
    cased = CasedAfter(c, cased);
  }
  return out;
}

std::string SwapCase(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool cased = false;
  for (size_t offset = 0; offset < text.size();) {
    const size_t start = offset;
    const char32_t c = NextCodePoint(text, &offset);
    if (IsUpper(c)) {
      AppendLower(text, start, c, cased, &out);
    } else if (IsLower(c)) {
      AppendUpper(c, &out);
    } else {
      AppendUtf8(c, &out);
    }
    cased = CasedAfter(c, cased);
  }
  return out;
}

std::string_view Strip(std::string_view text, const std::string_view* chars, StripSides sides) {
  std::vector<char32_t> stripped;  // sorted, so that many characters on a long text stay cheap
  for (size_t offset = 0; chars && offset < chars->size();) {
    stripped.push_back(NextCodePoint(*chars, &offset));
  }
  std::sort(stripped.begin(), stripped.end());
  const auto strips = [&](char32_t c) {
    return chars ? std::binary_search(stripped.begin(), stripped.end(), c) : IsSpace(c);
  };
  size_t begin = 0;
  if (sides != StripSides::kRight) {
    while (begin < text.size()) {
      size_t next = begin;
      if (!strips(NextCodePoint(text, &next))) break;
      begin = next;
    }
  }
  size_t end = text.size();
  if (sides != StripSides::kLeft) {
    while (end > begin) {
      size_t start = end - 1;
      while (start > begin && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
      size_t next = start;
      if (!strips(NextCodePoint(text, &next))) break;
      end = start;
    }
  }
  return text.substr(begin, end - begin);
}

std::string EscapeHtml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace sluice::engine::jinja
