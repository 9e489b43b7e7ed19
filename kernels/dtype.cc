#include <array>

#include "kernels/check.h"
#include "kernels/tensor.h"

namespace sluice::kernels {

const DTypeInfo& InfoOf(DType dtype) {
  // In the order of the enumeration.
  static constexpr std::array<DTypeInfo, 12> kInfo{{
      {"F32", 1, 4},
      {"F16", 1, 2},
      {"BF16", 1, 2},
      {"I32", 1, 4},
      {"Q8_0", 32, 34},
      {"Q4_0", 32, 18},
      {"Q4_1", 32, 20},
      {"Q5_0", 32, 22},
      {"Q5_1", 32, 24},
      {"Q4_K", 256, 144},
      {"Q5_K", 256, 176},
      {"Q6_K", 256, 210},
  }};
  const auto index = static_cast<size_t>(dtype);
  SLUICE_CHECK_LT(index, kInfo.size());
  return kInfo[index];
}

}  // namespace sluice::kernels
