#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::engine {

// Budgets for one rendering: templates come from model files and are hostile.
struct TemplateLimits {
  size_t source_bytes_max = 256 << 10;
  int64_t work_max = 4'000'000;       // nodes evaluated, plus bytes copied / 64
  size_t output_bytes_max = 8 << 20;  // of the output and of any one value
  int recursion_max = 128;            // parser nesting and macro calls
};

}  // namespace sluice::engine
