#include "kernels/dequantize.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/numeric.h"
#include "tests/kernels/golden_blocks.h"
#include "tests/kernels/quantize.h"
#include "tests/kernels/random_data.h"

namespace sluice::kernels {
namespace {

using testing::QuantizeRow;

std::vector<std::byte> BytesFromHex(std::string_view hex) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

std::vector<float> Dequantize(DType dtype, const std::vector<std::byte>& bytes) {
  const DTypeInfo& info = InfoOf(dtype);
  std::vector<float> values(bytes.size() / static_cast<size_t>(info.block_bytes) *
                            static_cast<size_t>(info.block_elements));
  DequantizeRow(dtype, bytes.data(), values.data(), static_cast<int64_t>(values.size()));
  return values;
}

// A zeroed block with its halves set.
class Block {
 public:
  explicit Block(DType dtype)
      : dtype_(dtype), bytes_(static_cast<size_t>(InfoOf(dtype).block_bytes)) {}
  Block& Half(size_t at, float value) {
    const uint16_t half = FloatToHalf(value);
    return Byte(at, half & 0xFF).Byte(at + 1, half >> 8);
  }
  Block& Byte(size_t at, int value) {
    bytes_[at] = static_cast<std::byte>(value);
    return *this;
  }
  std::vector<float> Values() const { return Dequantize(dtype_, bytes_); }

 private:
  DType dtype_;
  std::vector<std::byte> bytes_;
};

// `base` everywhere but at these elements.
std::vector<float> Except(size_t n, float base, std::vector<std::pair<size_t, float>> elements) {
  std::vector<float> values(n, base);
  for (const auto& [at, value] : elements) values[at] = value;
  return values;
}

TEST(Dequantize, SizesOfBlocks) {
  EXPECT_EQ(BytesOf(DType::kF32, 5), 20);
  EXPECT_EQ(BytesOf(DType::kF16, 5), 10);
  EXPECT_EQ(BytesOf(DType::kBF16, 5), 10);
  EXPECT_EQ(BytesOf(DType::kQ8_0, 64), 68);
  EXPECT_EQ(BytesOf(DType::kQ4_0, 64), 36);
  EXPECT_EQ(BytesOf(DType::kQ4_1, 64), 40);
  EXPECT_EQ(BytesOf(DType::kQ5_0, 64), 44);
  EXPECT_EQ(BytesOf(DType::kQ5_1, 64), 48);
  EXPECT_EQ(BytesOf(DType::kQ4_K, 512), 288);
  EXPECT_EQ(BytesOf(DType::kQ5_K, 512), 352);
  EXPECT_EQ(BytesOf(DType::kQ6_K, 512), 420);
}

TEST(Dequantize, PlainFormats) {
  const std::vector<float> values{0.0f, 1.5f, -2.25f, 65504.0f};
  std::vector<std::byte> half, bfloat, full;
  for (const float value : values) {
    for (int i = 0; i < 2; ++i) {
      half.push_back(static_cast<std::byte>(FloatToHalf(value) >> (8 * i)));
      bfloat.push_back(static_cast<std::byte>(FloatToBFloat16(value) >> (8 * i)));
    }
    for (int i = 0; i < 4; ++i) {
      full.push_back(static_cast<std::byte>(std::bit_cast<uint32_t>(value) >> (8 * i)));
    }
  }
  EXPECT_EQ(Dequantize(DType::kF32, full), values);
  EXPECT_EQ(Dequantize(DType::kF16, half), values);
  EXPECT_EQ(Dequantize(DType::kBF16, bfloat), (std::vector<float>{0.0f, 1.5f, -2.25f, 65536.0f}));
}

TEST(Dequantize, Q8_0ByHand) {
  EXPECT_EQ(Block(DType::kQ8_0).Half(0, 0.5f).Byte(2, 127).Byte(17, 0x80).Byte(33, 0xFF).Values(),
            Except(32, 0.0f, {{0, 63.5f}, {15, -64.0f}, {31, -0.5f}}));
}

TEST(Dequantize, Q4_0ByHand) {
  EXPECT_EQ(Block(DType::kQ4_0).Half(0, 2.0f).Byte(2, 0x0F).Byte(3, 0xF0).Byte(17, 0x98).Values(),
            Except(32, -16.0f, {{0, 14.0f}, {17, 14.0f}, {15, 0.0f}, {31, 2.0f}}));
}

TEST(Dequantize, Q4_1ByHand) {
  EXPECT_EQ(Block(DType::kQ4_1).Half(0, 2.0f).Half(2, -3.0f).Byte(4, 0x0F).Byte(19, 0x1A).Values(),
            Except(32, -3.0f, {{0, 27.0f}, {15, 17.0f}, {31, -1.0f}}));
}

TEST(Dequantize, Q5_0ByHand) {
  // The fifth bits of elements 0, 9, 16 and 31.
  EXPECT_EQ(Block(DType::kQ5_0)
                .Half(0, 1.0f)
                .Byte(2, 0x01)
                .Byte(3, 0x02)
                .Byte(4, 0x01)
                .Byte(5, 0x80)
                .Byte(6, 0xF3)
                .Values(),
            Except(32, -16.0f, {{0, 3.0f}, {9, 0.0f}, {16, 15.0f}, {31, 0.0f}}));
}

TEST(Dequantize, Q5_1ByHand) {
  EXPECT_EQ(Block(DType::kQ5_1)
                .Half(0, 0.5f)
                .Half(2, 1.0f)
                .Byte(4, 0x02)
                .Byte(7, 0x40)
                .Byte(9, 0x0F)
                .Values(),
            Except(32, 1.0f, {{1, 16.5f}, {30, 9.0f}}));
}

// Group scales: bytes 4-7 and 8-11 of the block hold groups 0-3, bytes 12-15 and the top bits of
// the others groups 4-7.
TEST(Dequantize, Q4_KByHand) {
  Block block(DType::kQ4_K);
  block.Half(0, 1.0f).Half(2, 0.5f);
  block.Byte(4, 0x80 | 5);         // group 0: s 5; top bits of group 4's s: 2
  block.Byte(8 + 1, 0x40 | 33);    // group 1: t 33; top bits of group 5's t: 1
  block.Byte(4 + 3, 63);           // group 3: s 63
  block.Byte(12 + 0, 0x07);        // group 4: s 7 | 2 << 4 = 39, t 0
  block.Byte(12 + 1, 0x90);        // group 5: s 0, t 9 | 1 << 4 = 25
  block.Byte(16 + 2, 0x03);        // element 2 of group 0: 3; of group 1: 0
  block.Byte(16 + 32 + 31, 0xF0);  // element 31 of group 3: 15
  block.Byte(16 + 64 + 1, 0x02);   // element 1 of group 4: 2
  std::vector<float> want(256, 0.0f);
  want[2] = 15.0f;
  std::fill_n(want.begin() + 32, 32, -16.5f);
  want[3 * 32 + 31] = 945.0f;
  want[4 * 32 + 1] = 78.0f;
  std::fill_n(want.begin() + 5 * 32, 32, -12.5f);
  EXPECT_EQ(block.Values(), want);
}

TEST(Dequantize, Q5_KByHand) {
  Block block(DType::kQ5_K);
  block.Half(0, 2.0f).Half(2, 1.0f);
  block.Byte(4, 1).Byte(5, 3).Byte(12 + 3, 0x12);  // s: groups 0, 1 and 7 (2); t of group 7: 1
  block.Byte(16 + 4, 0x81);                        // fifth bit of element 4 in groups 0 and 7
  block.Byte(48 + 4, 0x51);                        // element 4 of group 0: 1, of group 1: 5
  std::vector<float> want(256, 0.0f);
  want[4] = 2.0f * 17;
  want[32 + 4] = 2.0f * 3 * 5;
  std::fill_n(want.begin() + 7 * 32, 32, -1.0f);
  want[7 * 32 + 4] = 2.0f * 2 * 16 - 1.0f;
  EXPECT_EQ(block.Values(), want);
}

TEST(Dequantize, Q6_KByHand) {
  Block block(DType::kQ6_K);
  block.Half(208, 0.25f);
  block.Byte(192 + 0, 4).Byte(192 + 3, 0xFE).Byte(192 + 13, 8);  // s: 4, -2 and 8
  block.Byte(0, 0x0A).Byte(128, 0x03);                           // element 0: 10 | 3 << 4 = 58
  // Second half: element 31 of its third row of 32 (s 13): low in the high nibble of byte 64 + 31,
  // upper bits at bit 4 of high byte 32 + 31.
  block.Byte(64 + 31, 0x50).Byte(128 + 32 + 31, 0x20);  // 5 | 2 << 4 = 37
  std::vector<float> want(256, 0.0f);
  std::fill_n(want.begin(), 16, 0.25f * 4 * -32);
  want[0] = 0.25f * 4 * 26;
  std::fill_n(want.begin() + 48, 16, 0.25f * -2 * -32);
  std::fill_n(want.begin() + 208, 16, 0.25f * 8 * -32);
  want[128 + 64 + 31] = 0.25f * 8 * 5;
  EXPECT_EQ(block.Values(), want);
}

TEST(Dequantize, GoldenBlocks) {
  for (const testing::GoldenBlock& golden : testing::kGoldenBlocks) {
    // One byte in, so that the source is not aligned.
    std::vector<std::byte> bytes = BytesFromHex(golden.block);
    bytes.insert(bytes.begin(), std::byte{0});
    std::vector<float> values(golden.values.size() / 8);
    ASSERT_EQ(static_cast<int64_t>(values.size()), InfoOf(golden.dtype).block_elements);
    DequantizeRow(golden.dtype, bytes.data() + 1, values.data(),
                  static_cast<int64_t>(values.size()));
    for (size_t i = 0; i < values.size(); ++i) {
      const auto want = static_cast<uint32_t>(
          std::stoul(std::string(golden.values.substr(i * 8, 8)), nullptr, 16));
      // Negative zero and zero are the same value.
      ASSERT_EQ(values[i], std::bit_cast<float>(want)) << InfoOf(golden.dtype).name << " " << i;
    }
  }
}

TEST(Dequantize, UndoesQuantize) {
  testing::Random random(1);
  const std::pair<DType, double> formats[] = {{DType::kQ8_0, 254},
                                              {DType::kQ4_0, 14},
                                              {DType::kQ4_1, 15},
                                              {DType::kQ5_0, 30},
                                              {DType::kQ5_1, 31}};
  for (const auto& [dtype, steps] : formats) {
    const std::vector<float> values = random.Normals(96);
    const std::vector<float> back = Dequantize(dtype, QuantizeRow(dtype, values));
    for (size_t begin = 0; begin < 96; begin += 32) {
      double largest = 0.0;
      for (size_t i = begin; i < begin + 32; ++i) {
        largest = std::max(largest, std::fabs(double{values[i]}));
      }
      for (size_t i = begin; i < begin + 32; ++i) {
        // Half a step, and the rounding of scale and minimum to half.
        EXPECT_NEAR(back[i], values[i], largest * (1.0 / steps + 2e-3)) << InfoOf(dtype).name;
      }
    }
    EXPECT_EQ(Dequantize(dtype, QuantizeRow(dtype, std::vector<float>(32, 0.0f))),
              std::vector<float>(32, 0.0f));
  }
}

}  // namespace
}  // namespace sluice::kernels
