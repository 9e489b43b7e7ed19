#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice::testing {

struct GoldenLine {
  std::string category;
  std::string text;
  bool special = false;
  std::vector<int32_t> ids;
  bool roundtrip = true;
};

// tests/golden/tokenizer.jsonl: texts on whose ids two independent programs agree.
std::vector<GoldenLine> ReadGolden();

struct DisputedLine {
  std::string text;
  std::vector<int32_t> right;
  std::string why;
};

// tests/golden/tokenizer_disputed.jsonl: texts on which they do not.
std::vector<DisputedLine> ReadDisputed();

}  // namespace sluice::testing
