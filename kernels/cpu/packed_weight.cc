#include "kernels/cpu/packed_weight.h"

#include <cstring>

#include "kernels/check.h"
#include "kernels/dequantize.h"
#include "kernels/numeric.h"

namespace sluice::kernels {
namespace {

constexpr int64_t kBlock = 32;
constexpr int64_t kRawDepthMax = 256;

PanelFormat FormatFor(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return PanelFormat::kF32;
    case DType::kF16:
      return PanelFormat::kF16;
    case DType::kBF16:
      return PanelFormat::kBF16;
    case DType::kQ8_0:
      return PanelFormat::kQ8_0;
    case DType::kQ4_0:
      return PanelFormat::kQ4_0;
    case DType::kQ4_1:
      return PanelFormat::kQ4_1;
    default:
      return PanelFormat::kRaw;
  }
}

// Bytes of one row's share of a panel, all parts together.
int64_t RowBytes(DType dtype, int64_t cols) { return BytesOf(dtype, cols); }

void CopyElement(std::byte* to, const std::byte* from, int64_t bytes) {
  std::memcpy(to, from, static_cast<size_t>(bytes));
}

uint16_t ReadWord(const std::byte* p) {
  uint16_t word = 0;
  std::memcpy(&word, p, 2);
  return word;
}

}  // namespace

PackedLayout::PackedLayout(const KernelTable& kernels, DType dtype, int64_t rows, int64_t cols)
    : dtype_(dtype),
      format_(FormatFor(dtype)),
      unsigned_q8_(kernels.unsigned_q8),
      lanes_(kernels.lanes),
      cols_(cols),
      panels_((rows + kernels.lanes - 1) / kernels.lanes),
      panel_bytes_((RowBytes(dtype, cols) * kernels.lanes + 63) / 64 * 64) {}

void PackedLayout::PackRow(const std::byte* source, int64_t row, std::byte* packed) const {
  const int64_t lane = row % lanes_;
  std::byte* panel = packed + row / lanes_ * panel_bytes_;
  switch (format_) {
    case PanelFormat::kF32:
    case PanelFormat::kF16:
    case PanelFormat::kBF16: {
      const int64_t bytes = InfoOf(dtype_).block_bytes;
      for (int64_t k = 0; k < cols_; ++k) {
        CopyElement(panel + (k * lanes_ + lane) * bytes, source + k * bytes, bytes);
      }
      return;
    }
    case PanelFormat::kQ8_0:
      return PackQ8(source, lane, panel);
    case PanelFormat::kQ4_0:
    case PanelFormat::kQ4_1:
      return PackQ4(source, lane, panel);
    case PanelFormat::kRaw: {
      const int64_t bytes = RowBytes(dtype_, cols_);
      return CopyElement(panel + lane * bytes, source, bytes);
    }
  }
}

void PackedLayout::PackQ8(const std::byte* source, int64_t lane, std::byte* panel) const {
  std::byte* scales = panel + cols_ * lanes_;
  const std::byte flip{static_cast<unsigned char>(unsigned_q8_ ? 0x80 : 0)};
  for (int64_t b = 0; b < cols_ / kBlock; ++b, source += 34) {
    CopyElement(scales + (b * lanes_ + lane) * 2, source, 2);
    for (int64_t i = 0; i < kBlock; ++i) {
      const int64_t group = b * 8 + i / 4;
      panel[(group * lanes_ + lane) * 4 + i % 4] = source[2 + i] ^ flip;
    }
  }
}

void PackedLayout::PackQ4(const std::byte* source, int64_t lane, std::byte* panel) const {
  const bool minima = format_ == PanelFormat::kQ4_1;
  const int64_t blocks = cols_ / kBlock, head = minima ? 4 : 2;
  std::byte* scales = panel + cols_ / 2 * lanes_;
  for (int64_t b = 0; b < blocks; ++b, source += head + 16) {
    CopyElement(scales + (b * lanes_ + lane) * 2, source, 2);
    if (minima) CopyElement(scales + ((blocks + b) * lanes_ + lane) * 2, source + 2, 2);
    for (int64_t i = 0; i < 16; i += 4) {
      CopyElement(panel + ((b * 4 + i / 4) * lanes_ + lane) * 4, source + head + i, 4);
    }
  }
}

void PackedLayout::UnpackRow(const std::byte* packed, int64_t row, float* out) const {
  const int64_t lane = row % lanes_;
  const std::byte* panel = packed + row / lanes_ * panel_bytes_;
  switch (format_) {
    case PanelFormat::kF32:
      for (int64_t k = 0; k < cols_; ++k) std::memcpy(out + k, panel + (k * lanes_ + lane) * 4, 4);
      return;
    case PanelFormat::kF16:
      for (int64_t k = 0; k < cols_; ++k) {
        out[k] = HalfToFloat(ReadWord(panel + (k * lanes_ + lane) * 2));
      }
      return;
    case PanelFormat::kBF16:
      for (int64_t k = 0; k < cols_; ++k) {
        out[k] = BFloat16ToFloat(ReadWord(panel + (k * lanes_ + lane) * 2));
      }
      return;
    case PanelFormat::kQ8_0:
      return UnpackQ8(panel, lane, out);
    case PanelFormat::kQ4_0:
    case PanelFormat::kQ4_1:
      return UnpackQ4(panel, lane, out);
    case PanelFormat::kRaw:
      return DequantizeRow(dtype_, panel + lane * RowBytes(dtype_, cols_), out, cols_);
  }
}

void PackedLayout::UnpackQ8(const std::byte* panel, int64_t lane, float* out) const {
  const std::byte* scales = panel + cols_ * lanes_;
  const int flip = unsigned_q8_ ? 0x80 : 0;
  for (int64_t k = 0; k < cols_; ++k) {
    const float d = HalfToFloat(ReadWord(scales + (k / kBlock * lanes_ + lane) * 2));
    const int byte = std::to_integer<int>(panel[(k / 4 * lanes_ + lane) * 4 + k % 4]) ^ flip;
    out[k] = d * static_cast<float>(static_cast<int8_t>(byte));
  }
}

void PackedLayout::UnpackQ4(const std::byte* panel, int64_t lane, float* out) const {
  const bool minima = format_ == PanelFormat::kQ4_1;
  const int64_t blocks = cols_ / kBlock;
  const std::byte* scales = panel + cols_ / 2 * lanes_;
  for (int64_t b = 0; b < blocks; ++b) {
    const float d = HalfToFloat(ReadWord(scales + (b * lanes_ + lane) * 2));
    const float m =
        minima ? HalfToFloat(ReadWord(scales + ((blocks + b) * lanes_ + lane) * 2)) : 0.0f;
    for (int64_t i = 0; i < 16; ++i) {
      const int byte = std::to_integer<int>(panel[((b * 4 + i / 4) * lanes_ + lane) * 4 + i % 4]);
      const int low = byte & 0xF, high = byte >> 4;
      float* block = out + b * kBlock;
      block[i] = minima ? d * static_cast<float>(low) + m : d * static_cast<float>(low - 8);
      block[i + 16] = minima ? d * static_cast<float>(high) + m : d * static_cast<float>(high - 8);
    }
  }
}

void PackedLayout::UnpackRawPanel(const std::byte* packed, int64_t panel, int64_t k0, int64_t depth,
                                  float* out) const {
  float values[kRawDepthMax];
  SLUICE_CHECK_LE(depth, kRawDepthMax);
  const std::byte* rows = packed + panel * panel_bytes_;
  for (int64_t lane = 0; lane < lanes_; ++lane) {
    const std::byte* row = rows + lane * RowBytes(dtype_, cols_);
    DequantizeRow(dtype_, row + BytesOf(dtype_, k0), values, depth);
    for (int64_t k = 0; k < depth; ++k) out[k * lanes_ + lane] = values[k];
  }
}

}  // namespace sluice::kernels
