#pragma once

// What the fast backend needs of an instruction set: single-threaded kernels on plain pointers.
// Shared between common code and the files compiled with an instruction set's flags, so it holds
// declarations and plain structs only (see vec.h).

#include <cstddef>
#include <cstdint>

namespace sluice::kernels {

// 32 activations as int8, with what products need of them. Never -128.
struct Q8Part {
  float scale;
  int32_t minus8;    // -8 * (sum of q): the offset of unsigned 4-bit weights
  int32_t minus128;  // -128 * (sum of q): the offset of unsigned 8-bit weights
};
struct Q8Block {
  int8_t q[32];
  int8_t fine[32];  // zeros unless refined
  Q8Part of_q, of_fine;
  float sum;        // of the values: of_q.scale * q + of_fine.scale * fine
  int32_t refined;  // 0 or 1
};
static_assert(sizeof(Q8Block) == 96);

// How a matrix is held. Rows are in panels of `lanes`, one row a vector lane; the last panel is
// filled up with zeros. A panel starts at a multiple of 64 bytes.
enum class PanelFormat : uint8_t {
  kF32,   // [cols][lanes]
  kF16,   // [cols][lanes]
  kBF16,  // [cols][lanes]
  // Blocks of 32 columns, for each: quants; after the quants of all blocks, binary16 scales
  // [blocks][lanes]; for kQ4_1 then binary16 minima [blocks][lanes].
  // Quants of kQ8: for each 4 columns [lanes][4] int8 (or, when the table says so, the int8 with
  // its upper bit flipped: unsigned, 128 more). Quants of kQ4: [4][lanes][4] bytes; byte i of group
  // g has column 4g + i in its lower and column 16 + 4g + i in its upper half.
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kRaw,  // rows as in the model file, for formats without kernels of their own
};

// out[t][n] for columns t in [0, columns) and the rows of panels [panel_begin, panel_end).
// "Column" is one left-side row, "row" one row of the weight.
struct MatMulTask {
  float* out = nullptr;           // [columns, rows]
  int64_t out_stride = 0;         // floats
  const std::byte* in = nullptr;  // rows of Q8Block or of float
  int64_t in_stride = 0;          // bytes
  int64_t columns = 0;
  const std::byte* weight = nullptr;
  int64_t panel_bytes = 0;
  int64_t panel_begin = 0, panel_end = 0;
  int64_t rows = 0, cols = 0;
  const float* bias = nullptr;  // [rows] or null
  float* scratch = nullptr;     // see KernelTable
  bool gathered = false;        // int8: it holds these columns already, from the call before
  // Fills scratch [depth][lanes] with columns k0.. of a kRaw panel (context: the weight view).
  void (*unpack_raw)(const void* context, int64_t panel, int64_t k0, int64_t depth,
                     float* out) = nullptr;
  const void* unpack_context = nullptr;
};

// One kv head's memory, in one layer. Keys of a block are [head_dim][block_size], values
// [block_size][head_dim].
struct KvHead {
  const std::byte* keys = nullptr;    // of block 0
  const std::byte* values = nullptr;  // of block 0
  int64_t block_bytes = 0;
  const int32_t* block_table = nullptr;
  int32_t block_size = 0;
  int32_t head_dim = 0;
  bool half = false;  // binary16, else float
};

// Positions are attended in partitions of this many, each with a softmax of its own, merged in
// order. The same for all calls, since it decides the order of arithmetic.
constexpr int kPartition = 256;

// Some query rows that read the same kv head, over one partition.
struct AttentionTask {
  KvHead kv;
  int rows = 0;                   // <= KernelTable::attention_rows
  const float* q = nullptr;       // [head_dim, rows], times the softmax scale
  const int32_t* last = nullptr;  // [rows] last position that the row sees, ascending
  int64_t first_position = 0;     // of the partition
  float* scores = nullptr;        // [rows, kPartition] scratch
  float* largest = nullptr;       // [rows] out: largest score
  float* total = nullptr;         // [rows] out: sum of exp(score - largest)
  float* out = nullptr;           // [rows, head_dim] out: sum of exp(score - largest) * value
};

// Takes one more partition of a row into the running sums.
struct MergeTask {
  float* largest = nullptr;
  float* total = nullptr;
  float* out = nullptr;  // [n]
  float other_largest = 0, other_total = 0;
  const float* other_out = nullptr;  // [n]
  int64_t n = 0;
};

// x += delta, out = x / sqrt(mean(x^2) + eps) * weight.
struct NormTask {
  float* out = nullptr;
  float* x = nullptr;
  const float* delta = nullptr;
  const float* weight = nullptr;
  int64_t n = 0;
  float eps = 0;
};

struct RopeTask {
  float* heads = nullptr;  // [count, head_dim]
  int64_t count = 0, head_dim = 0;
  const float* rope = nullptr;  // [pairs, 2]
  int64_t pairs = 0;
  bool adjacent = false;
};

struct KernelTable {
  int lanes = 0;
  bool unsigned_q8 = false;  // whether PanelFormat::kQ8_0 holds int8 + 128
  int q8_columns = 0;        // columns that share one load of an int8 product's weights
  int attention_rows = 0;    // most rows of an AttentionTask
  // Scratch of products: of int8 ones q8_columns rows of the left side, of float ones this.
  int64_t f32_scratch_floats = 0;

  void (*matmul_q8[3])(const MatMulTask&) = {};   // by PanelFormat kQ8_0, kQ4_0, kQ4_1
  void (*matmul_f32[7])(const MatMulTask&) = {};  // by PanelFormat

  void (*quantize)(const float* x, int64_t n, Q8Block* out) = nullptr;
  // Refines the large blocks of a whole row that is quantized.
  void (*refine)(const float* x, int64_t n, Q8Block* blocks) = nullptr;
  // out = x / sqrt(mean(x^2) + eps) * weight.
  void (*rms_norm)(float* out, const float* x, const float* weight, int64_t n, float eps) = nullptr;
  void (*add_rms_norm)(const NormTask&) = nullptr;
  void (*gate_silu)(float* out, const float* gate, const float* up, int64_t n) = nullptr;
  void (*gate_gelu)(float* out, const float* gate, const float* up, int64_t n) = nullptr;
  void (*rope)(const RopeTask&) = nullptr;
  void (*to_half)(const float* x, int64_t n, uint16_t* out) = nullptr;

  void (*scale)(float* out, const float* x, int64_t n, float factor) = nullptr;
  void (*attend)(const AttentionTask&) = nullptr;
  void (*merge)(const MergeTask&) = nullptr;

  // Index of the largest logit, the lowest of equals; -1 for a row that cannot be sampled (a NaN,
  // +infinity, nothing but -infinity).
  int32_t (*argmax)(const float* logits, int64_t n) = nullptr;
  // Writes the ids of logits >= threshold, ascending, at most `capacity`; returns how many there
  // are.
  int64_t (*collect)(const float* logits, int64_t n, float threshold, int32_t* ids,
                     int64_t capacity) = nullptr;
  // Sum of exp((logit - largest) / temperature), in double.
  double (*sum_of_weights)(const float* logits, int64_t n, float largest,
                           float temperature) = nullptr;
};

namespace avx2 {
extern const KernelTable kTable;
}
namespace avx512 {
extern const KernelTable kTable;
}

}  // namespace sluice::kernels
