#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sluice::kernels {

// Element and block formats. The block formats are GGUF's, bit for bit.
enum class DType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kI32,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,  // blocks of 32
  kQ4_K,
  kQ5_K,
  kQ6_K,  // blocks of 256
};

struct DTypeInfo {
  std::string_view name;
  int64_t block_elements;  // 1 for plain types
  int64_t block_bytes;
};
const DTypeInfo& InfoOf(DType dtype);
// Bytes of `elements` in a row; elements must be a multiple of the block.
inline int64_t BytesOf(DType dtype, int64_t elements) {
  const DTypeInfo& info = InfoOf(dtype);
  return elements / info.block_elements * info.block_bytes;
}

// A non-owning view: rank 1 to 3, inner dimensions contiguous, an own stride (in elements) for the
// first, so that a column range of a matrix is a view too. The memory is the backend's device
// memory.
template <typename Pointer>
struct BasicTensorView {
  Pointer data = nullptr;
  DType dtype = DType::kF32;
  int rank = 0;
  std::array<int64_t, 3> shape{1, 1, 1};
  int64_t stride = 0;  // elements from one index of dimension 0 to the next

  int64_t dim(int i) const { return shape[static_cast<size_t>(i)]; }
  int64_t rows() const { return shape[0]; }
  int64_t cols() const {
    return shape[1] * shape[2];
  }  // elements a row, all inner dimensions together
};
using TensorView = BasicTensorView<void*>;

struct ConstTensorView : BasicTensorView<const void*> {
  ConstTensorView() = default;
  ConstTensorView(const TensorView& v) {  // NOLINT: a mutable view is a const view
    data = v.data, dtype = v.dtype, rank = v.rank, shape = v.shape, stride = v.stride;
  }
};

template <typename View = TensorView, typename Pointer>
View Vector(Pointer data, int64_t n, DType dtype = DType::kF32) {
  View v;
  v.data = data, v.dtype = dtype, v.rank = 1, v.shape = {n, 1, 1}, v.stride = 1;
  return v;
}
// [rows, cols]; `stride` 0 means cols.
template <typename View = TensorView, typename Pointer>
View Matrix(Pointer data, int64_t rows, int64_t cols, int64_t stride = 0,
            DType dtype = DType::kF32) {
  View v;
  v.data = data, v.dtype = dtype, v.rank = 2, v.shape = {rows, cols, 1},
  v.stride = stride ? stride : cols;
  return v;
}
// [rows, heads, head_dim]; `stride` 0 means heads * head_dim.
template <typename View = TensorView, typename Pointer>
View Heads(Pointer data, int64_t rows, int64_t heads, int64_t head_dim, int64_t stride = 0) {
  View v;
  v.data = data, v.rank = 3, v.shape = {rows, heads, head_dim},
  v.stride = stride ? stride : heads * head_dim;
  return v;
}

// What a matrix product reads on its left side. The bytes are the backend's own layout.
enum class ActivationFormat : uint8_t {
  kF32,  // plain float rows
  // int8 with one float scale (and what the products need besides) per 32 values. With m = max |x|
  // of the block, in float: scale = m / 127, q = x * (127 / m) rounded to nearest, ties to even. A
  // block with a NaN or an infinity has scale NaN (so that what is computed from it is NaN) and
  // q = 0; one with m < 2^-100 has scale 0 and q = 0.
  //
  // A few channels of a model's activations are far larger than the rest, and the error of their
  // blocks, up to scale / 2 in each value, is most of a row's. So blocks whose scale^2 is above the
  // row's mean (in double) are refined: fine = (x - scale * q) * (254 / scale), rounded likewise,
  // and the value is scale * q + (scale / 254) * fine. Attention's rows are not refined: heads are
  // rounded apart from each other.
  kQ8,
};
struct ActivationView {
  std::byte* data = nullptr;
  ActivationFormat format = ActivationFormat::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t row_bytes = 0;  // Backend::ActivationRowBytes(format, cols)
};

// A matrix as a model file holds it: [rows, cols], row-major, rows contiguous, any alignment.
struct RawMatrix {
  DType dtype = DType::kF32;
  int64_t rows = 0;  // outputs
  int64_t cols = 0;  // inputs
  const std::byte* data = nullptr;
};

// A matrix in the layout its backend multiplies with (Backend::PackWeight). [rows, cols].
struct WeightView {
  DType dtype = DType::kF32;  // the format it came from
  int64_t rows = 0;
  int64_t cols = 0;
  const std::byte* data = nullptr;
};

// One layer's share of the paged KV memory. Block b lies at base + b * block_bytes and holds, for
// every layer, K then V, each as `kv_heads` areas of block_size * head_dim elements. The order of
// elements inside an area is the backend's own; a block is contiguous over layers so that it moves
// in one piece.
struct KvLayerView {
  std::byte* base = nullptr;
  int64_t blocks = 0;
  int64_t block_bytes = 0;
  int64_t layer_offset = 0;   // bytes from the start of a block to this layer's K
  DType dtype = DType::kF32;  // kF32 or kF16
  int32_t block_size = 0;     // tokens
  int32_t kv_heads = 0;
  int32_t head_dim = 0;

  int64_t AreaBytes() const { return BytesOf(dtype, int64_t{block_size} * head_dim); }
  std::byte* KeyArea(int64_t block, int64_t head) const {
    return base + block * block_bytes + layer_offset + head * AreaBytes();
  }
  std::byte* ValueArea(int64_t block, int64_t head) const {
    return KeyArea(block, kv_heads + head);
  }
};

}  // namespace sluice::kernels
