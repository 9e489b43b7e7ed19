#include "kernels/numeric.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "gtest/gtest.h"
#include "tests/kernels/random_data.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace sluice::kernels {
namespace {

uint32_t Bits(float value) { return std::bit_cast<uint32_t>(value); }

// The value of a half by its definition.
double HalfByDefinition(uint32_t half) {
  const double sign = half & 0x8000 ? -1.0 : 1.0;
  const int exponent = static_cast<int>(half >> 10 & 0x1F);
  const int fraction = static_cast<int>(half & 0x3FF);
  if (exponent == 31) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

TEST(Numeric, EveryHalf) {
  for (uint32_t half = 0; half < 65536; ++half) {
    const float value = HalfToFloat(static_cast<uint16_t>(half));
    const double want = HalfByDefinition(half);
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(value)) << half;
      ASSERT_EQ(FloatToHalf(value), half | 0x200u) << half;  // quiet, payload kept
    } else {
      ASSERT_EQ(double{value}, want) << half;
      ASSERT_EQ(FloatToHalf(value), half);
    }
    ASSERT_EQ(std::signbit(value), half >= 0x8000) << half;
  }
}

// Between any two neighbouring halves: below, at and above the middle.
TEST(Numeric, HalvesRoundToNearestEven) {
  for (uint32_t half = 0; half < 0x7C00; ++half) {
    const double low = HalfByDefinition(half);
    const double high = half + 1 == 0x7C00 ? 65536.0 : HalfByDefinition(half + 1);
    const auto middle = static_cast<float>((low + high) / 2);
    const uint32_t even = half % 2 == 0 ? half : half + 1;
    for (const uint32_t sign : {0u, 0x8000u}) {
      const float s = sign ? -1.0f : 1.0f;
      ASSERT_EQ(FloatToHalf(s * middle), sign | even) << half;
      ASSERT_EQ(FloatToHalf(s * std::nextafter(middle, 0.0f)), sign | half) << half;
      ASSERT_EQ(FloatToHalf(s * std::nextafter(middle, 1e30f)), sign | (half + 1)) << half;
    }
  }
}

TEST(Numeric, HalfEdges) {
  EXPECT_EQ(FloatToHalf(65519.996f), 0x7BFF);
  EXPECT_EQ(FloatToHalf(65520.0f), 0x7C00);
  EXPECT_EQ(FloatToHalf(-3e38f), 0xFC00);
  EXPECT_EQ(FloatToHalf(std::numeric_limits<float>::infinity()), 0x7C00);
  EXPECT_EQ(FloatToHalf(0x1p-25f), 0);
  EXPECT_EQ(FloatToHalf(std::nextafter(0x1p-25f, 1.0f)), 1);
  EXPECT_EQ(FloatToHalf(std::numeric_limits<float>::denorm_min()), 0);
  EXPECT_EQ(FloatToHalf(-0.0f), 0x8000);
}

TEST(Numeric, EveryBFloat16) {
  for (uint32_t value = 0; value < 65536; ++value) {
    const float wide = BFloat16ToFloat(static_cast<uint16_t>(value));
    ASSERT_EQ(Bits(wide), value << 16);
    ASSERT_EQ(FloatToBFloat16(wide), std::isnan(wide) ? (value | 0x40u) : value);
  }
}

TEST(Numeric, BFloat16RoundsToNearestEven) {
  for (uint32_t value = 0; value < 0x7F80; ++value) {
    for (const uint32_t sign : {0u, 0x80000000u}) {
      const auto narrow = [&](uint32_t low) {
        return FloatToBFloat16(std::bit_cast<float>(sign | value << 16 | low)) - (sign >> 16);
      };
      ASSERT_EQ(narrow(0x7FFF), value);
      ASSERT_EQ(narrow(0x8000), value + value % 2);
      ASSERT_EQ(narrow(0x8001), value + 1);
    }
  }
  EXPECT_EQ(FloatToBFloat16(std::bit_cast<float>(0x7F800001u)), 0x7FC0);  // NaN, not infinity
}

#if defined(__x86_64__)
__attribute__((target("f16c"))) uint16_t HardwareToHalf(float value) {
  return static_cast<uint16_t>(_cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT));
}
__attribute__((target("f16c"))) float HardwareToFloat(uint16_t half) { return _cvtsh_ss(half); }

TEST(Numeric, AgreesWithTheProcessor) {
  if (!__builtin_cpu_supports("f16c")) GTEST_SKIP() << "no F16C";
  for (uint32_t half = 0; half < 65536; ++half) {
    const auto h = static_cast<uint16_t>(half);
    ASSERT_EQ(Bits(HalfToFloat(h)), Bits(HardwareToFloat(h))) << half;
  }
  testing::Random random(1);
  for (int i = 0; i < 1'000'000; ++i) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(random.Bits()));
    ASSERT_EQ(FloatToHalf(value), HardwareToHalf(value)) << Bits(value);
    // And where halves are dense.
    const float near = std::bit_cast<float>((Bits(value) & 0x8FFFFFFFu) | 0x30000000u);
    ASSERT_EQ(FloatToHalf(near), HardwareToHalf(near)) << Bits(near);
  }
}
#endif

}  // namespace
}  // namespace sluice::kernels
