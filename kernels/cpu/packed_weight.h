#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/simd/kernel_table.h"
#include "kernels/tensor.h"

namespace sluice::kernels {

// Where things are in a packed matrix; the layouts themselves are told at PanelFormat.
class PackedLayout {
 public:
  PackedLayout(const KernelTable& kernels, DType dtype, int64_t rows, int64_t cols);

  PanelFormat format() const { return format_; }
  int64_t panels() const { return panels_; }
  int64_t panel_bytes() const { return panel_bytes_; }  // a multiple of 64
  int64_t bytes() const { return panels_ * panel_bytes_; }

  // Puts `source`, a row of the model file, into row `row` of `packed`.
  void PackRow(const std::byte* source, int64_t row, std::byte* packed) const;
  // The values of a row: out [cols].
  void UnpackRow(const std::byte* packed, int64_t row, float* out) const;
  // Columns [k0, k0 + depth), multiples of the block, of a kRaw panel: out [depth, lanes].
  void UnpackRawPanel(const std::byte* packed, int64_t panel, int64_t k0, int64_t depth,
                      float* out) const;

 private:
  void PackQ8(const std::byte* source, int64_t lane, std::byte* panel) const;
  void PackQ4(const std::byte* source, int64_t lane, std::byte* panel) const;
  void UnpackQ8(const std::byte* panel, int64_t lane, float* out) const;
  void UnpackQ4(const std::byte* panel, int64_t lane, float* out) const;

  DType dtype_;
  PanelFormat format_;
  bool unsigned_q8_;
  int64_t lanes_, cols_, panels_, panel_bytes_;
};

}  // namespace sluice::kernels
