#pragma once

#include <cstddef>
#include <cstdint>

// The character properties and case mappings behind Python's str methods, as sorted ranges.
namespace sluice::engine::jinja {

// Code points lo, lo + stride, ..., hi.
struct CodePointRange {
  uint32_t lo, hi;
  uint8_t stride;
};

// Code points lo, lo + stride, ..., hi map to themselves plus delta.
struct CaseRange {
  uint32_t lo, hi;
  int32_t delta;
  uint8_t stride;
};

// One code point that maps to several, as UTF-8.
struct CaseExpansion {
  uint32_t code_point;
  const char* text;
};

extern const CodePointRange kNotPrintable[], kAlphabetic[], kNumeric[], kDigit[], kDecimal[];
extern const CodePointRange kUppercase[], kLowercase[], kTitlecase[];
extern const size_t kNotPrintableSize, kAlphabeticSize, kNumericSize, kDigitSize, kDecimalSize;
extern const size_t kUppercaseSize, kLowercaseSize, kTitlecaseSize;
extern const CaseRange kToUpper[], kToLower[], kToTitle[];
extern const size_t kToUpperSize, kToLowerSize, kToTitleSize;
extern const CaseExpansion kToUpperExpansions[], kToLowerExpansions[], kToTitleExpansions[];
extern const size_t kToUpperExpansionsSize, kToLowerExpansionsSize, kToTitleExpansionsSize;

}  // namespace sluice::engine::jinja
