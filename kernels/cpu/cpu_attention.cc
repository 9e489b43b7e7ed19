#include <algorithm>
#include <cstring>

#include "kernels/check.h"
#include "kernels/cpu/cpu_ops.h"

namespace sluice::kernels {
namespace {

// Rough costs in nanoseconds, to choose chunks by.
constexpr double kRopeCost = 0.3;  // an element of q, k or v

template <typename View>
auto* FloatRow(const View& view, int64_t row) {
  using Float = std::conditional_t<std::is_same_v<View, TensorView>, float, const float>;
  return static_cast<Float*>(view.data) + row * view.stride;
}

// A key into its column of a block's [head_dim, block_size] area.
template <typename Element>
void ScatterKey(const Element* key, const KvLayerView& kv, int64_t offset, std::byte* area) {
  auto* column = reinterpret_cast<Element*>(area) + offset;
  for (int64_t d = 0; d < kv.head_dim; ++d) column[d * kv.block_size] = key[d];
}

}  // namespace

void CpuOps::DoRopeAndWriteKv(TensorView q, const KvLayerView& kv, ConstTensorView k,
                              ConstTensorView v, ConstTensorView rope, RopePairs pairs,
                              const AttentionLayout& layout) {
  const int64_t head_dim = kv.head_dim, width = kv.kv_heads * head_dim;
  const double cost = kRopeCost * static_cast<double>(q.cols() + 2 * width);
  Parallel(layout.tokens, cost, [&](int64_t begin, int64_t end, int worker) {
    float* rotated = ScratchOf(worker).Floats(2 * width);
    auto* halves = reinterpret_cast<uint16_t*>(rotated + width);
    for (int64_t t = begin; t < end; ++t) {
      const int64_t position = layout.positions[t], slot = layout.kv_slots[t];
      SLUICE_CHECK(position >= 0 && position < rope.rows()) << "position " << position;
      SLUICE_CHECK(slot >= 0 && slot < kv.blocks * kv.block_size) << "slot " << slot;
      const int64_t block = slot / kv.block_size, offset = slot % kv.block_size;

      RopeTask task{FloatRow(q, t),           q.dim(1),    head_dim,
                    FloatRow(rope, position), rope.dim(1), pairs == RopePairs::kAdjacent};
      kernels_.rope(task);
      std::memcpy(rotated, FloatRow(k, t), static_cast<size_t>(width) * sizeof(float));
      task.heads = rotated, task.count = kv.kv_heads;
      kernels_.rope(task);

      const bool half = kv.dtype == DType::kF16;
      if (half) kernels_.to_half(rotated, width, halves);
      for (int64_t g = 0; g < kv.kv_heads; ++g) {
        std::byte* keys = kv.KeyArea(block, g);
        std::byte* values = kv.ValueArea(block, g) + BytesOf(kv.dtype, offset * head_dim);
        const float* value = FloatRow(v, t) + g * head_dim;
        if (half) {
          ScatterKey(halves + g * head_dim, kv, offset, keys);
          kernels_.to_half(value, head_dim, reinterpret_cast<uint16_t*>(values));
        } else {
          ScatterKey(rotated + g * head_dim, kv, offset, keys);
          std::memcpy(values, value, static_cast<size_t>(head_dim) * sizeof(float));
        }
      }
    }
  });
}

// One PagedAttention. The work is cut into tiles: some of the rows [queries, heads of a group] of
// one sequence that read the same kv head. A tile goes through its context partition by partition
// (kPartition positions each), taking each partition's sums into the running ones. When there are
// too few tiles for the threads, the partitions are items of their own, and their sums are merged
// in a second stage, in the same order.
class AttentionRun {
 public:
  AttentionRun(CpuOps& ops, const ActivationView& out, const ConstTensorView& q,
               const KvLayerView& kv, const AttentionLayout& layout)
      : ops_(ops),
        out_(out),
        q_(q),
        kv_(kv),
        layout_(layout),
        group_(q.dim(1) / kv.kv_heads),
        head_dim_(kv.head_dim) {}

  void Run(float scale);

 private:
  using QueryTile = CpuOps::QueryTile;

  // Floats of the sums over one partition: [largest, total][rows], out [rows, head_dim].
  struct Sums {
    float* largest;
    float* total;
    float* out;
  };
  int64_t SumsFloats() const { return ops_.kernels_.attention_rows * (head_dim_ + 2); }
  Sums SumsAt(float* floats) const {
    const int64_t rows = ops_.kernels_.attention_rows;
    return {floats, floats + rows, floats + 2 * rows};
  }

  void MakeTiles();
  int64_t Token(const QueryTile& tile, int64_t r) const {
    return layout_.query_begin[tile.sequence] + (tile.first_row + r) / group_;
  }
  int64_t Head(const QueryTile& tile, int64_t kv_head, int64_t r) const {
    return kv_head * group_ + (tile.first_row + r) % group_;
  }
  int64_t LastPosition(const QueryTile& tile, int64_t r) const {
    return layout_.positions[Token(tile, r)];
  }
  int64_t PartitionsOf(const QueryTile& tile) const {
    return LastPosition(tile, tile.rows - 1) / kPartition + 1;
  }
  AttentionTask Prepare(const QueryTile& tile, int64_t kv_head, float* scratch);
  int64_t PrepareFloats() const {
    return ops_.kernels_.attention_rows * (head_dim_ + kPartition + 1);
  }
  void Attend(AttentionTask& task, int64_t partition, const Sums& sums);
  void Take(const QueryTile& tile, int64_t partition, const Sums& from, const Sums& into);
  void Finish(const QueryTile& tile, int64_t kv_head, const Sums& sums);
  void RunTiles();
  void RunPartitions();

  CpuOps& ops_;
  const ActivationView& out_;
  const ConstTensorView& q_;
  const KvLayerView& kv_;
  const AttentionLayout& layout_;
  const int64_t group_, head_dim_;
  float scale_ = 1.0f;
  float* rows_ = nullptr;  // [T, H * D] when the result is not written at once
};

void AttentionRun::MakeTiles() {
  std::vector<QueryTile>& tiles = ops_.query_tiles_;
  tiles.clear();
  const int64_t rows_max = ops_.kernels_.attention_rows;
  for (int32_t b = 0; b < layout_.sequences; ++b) {
    const int64_t rows = (layout_.query_begin[b + 1] - layout_.query_begin[b]) * group_;
    const int64_t count = (rows + rows_max - 1) / rows_max;
    for (int64_t i = 0, row = 0; i < count; ++i) {
      const int64_t size = (rows - row) / (count - i);
      tiles.push_back({b, static_cast<int32_t>(row), static_cast<int32_t>(size)});
      row += size;
    }
  }
}

// Queries times scale (a column each), last positions, and room for scores, in `scratch`
// (PrepareFloats).
AttentionTask AttentionRun::Prepare(const QueryTile& tile, int64_t kv_head, float* scratch) {
  const int64_t rows_max = ops_.kernels_.attention_rows;
  float* queries = scratch + rows_max * kPartition;
  auto* last = reinterpret_cast<int32_t*>(queries + rows_max * head_dim_);
  for (int64_t r = 0; r < tile.rows; ++r) {
    const float* query = FloatRow(q_, Token(tile, r)) + Head(tile, kv_head, r) * head_dim_;
    for (int64_t d = 0; d < head_dim_; ++d) queries[d * tile.rows + r] = query[d] * scale_;
    last[r] = static_cast<int32_t>(LastPosition(tile, r));
  }
  AttentionTask task;
  task.kv.keys = kv_.KeyArea(0, kv_head);
  task.kv.values = kv_.ValueArea(0, kv_head);
  task.kv.block_bytes = kv_.block_bytes;
  task.kv.block_table = layout_.block_table + int64_t{tile.sequence} * layout_.blocks_max;
  task.kv.block_size = kv_.block_size;
  task.kv.head_dim = kv_.head_dim;
  task.kv.half = kv_.dtype == DType::kF16;
  task.rows = tile.rows;
  task.q = queries;
  task.last = last;
  task.scores = scratch;
  return task;
}

void AttentionRun::Attend(AttentionTask& task, int64_t partition, const Sums& sums) {
  task.first_position = partition * kPartition;
  task.largest = sums.largest, task.total = sums.total, task.out = sums.out;
  ops_.kernels_.attend(task);
}

// Takes a partition's sums into those of the partitions before it. Rows that end earlier are left
// alone.
void AttentionRun::Take(const QueryTile& tile, int64_t partition, const Sums& from,
                        const Sums& into) {
  for (int64_t r = 0; r < tile.rows; ++r) {
    if (LastPosition(tile, r) < partition * kPartition) continue;
    ops_.kernels_.merge({into.largest + r, into.total + r, into.out + r * head_dim_,
                         from.largest[r], from.total[r], from.out + r * head_dim_, head_dim_});
  }
}

void AttentionRun::Finish(const QueryTile& tile, int64_t kv_head, const Sums& sums) {
  for (int64_t r = 0; r < tile.rows; ++r) {
    const int64_t token = Token(tile, r), column = Head(tile, kv_head, r) * head_dim_;
    float* out = sums.out + r * head_dim_;
    float* to = rows_ != nullptr ? rows_ + token * out_.cols + column : out;
    if (out_.format == ActivationFormat::kF32) {
      to = reinterpret_cast<float*>(out_.data + token * out_.row_bytes) + column;
    }
    ops_.kernels_.scale(to, out, head_dim_, 1.0f / sums.total[r]);
    if (out_.format == ActivationFormat::kQ8 && rows_ == nullptr) {
      auto* blocks = reinterpret_cast<Q8Block*>(out_.data + token * out_.row_bytes);
      ops_.kernels_.quantize(to, head_dim_, blocks + column / 32);
    }
  }
}

void AttentionRun::RunTiles() {
  const std::vector<QueryTile>& tiles = ops_.query_tiles_;
  const auto count = static_cast<int64_t>(tiles.size()) * kv_.kv_heads;
  const double cost = 0.1 * static_cast<double>(ops_.kernels_.attention_rows * head_dim_) *
                      static_cast<double>(layout_.context_max) / 8;
  ops_.Parallel(count, cost, [&](int64_t begin, int64_t end, int worker) {
    float* scratch = ops_.ScratchOf(worker).Floats(PrepareFloats() + 2 * SumsFloats());
    const Sums all = SumsAt(scratch + PrepareFloats());
    const Sums part = SumsAt(scratch + PrepareFloats() + SumsFloats());
    for (int64_t i = begin; i < end; ++i) {
      // The last tiles of a prompt see most positions: they come first.
      const int64_t item = count - 1 - i;
      const QueryTile& tile = tiles[static_cast<size_t>(item / kv_.kv_heads)];
      AttentionTask task = Prepare(tile, item % kv_.kv_heads, scratch);
      Attend(task, 0, all);
      for (int64_t p = 1; p < PartitionsOf(tile); ++p) {
        Attend(task, p, part);
        Take(tile, p, part, all);
      }
      Finish(tile, item % kv_.kv_heads, all);
    }
  });
}

void AttentionRun::RunPartitions() {
  const std::vector<QueryTile>& tiles = ops_.query_tiles_;
  const auto count = static_cast<int64_t>(tiles.size()) * kv_.kv_heads;
  const int64_t partitions = (layout_.context_max + kPartition - 1) / kPartition;
  const int64_t rows_floats = rows_ != nullptr ? (layout_.tokens * out_.cols + 15) / 16 * 16 : 0;
  float* shared = ops_.shared_.Floats(rows_floats + count * partitions * SumsFloats());
  if (rows_ != nullptr) rows_ = shared;
  const auto sums_of = [&](int64_t item, int64_t partition) {
    return SumsAt(shared + rows_floats + (item * partitions + partition) * SumsFloats());
  };
  ops_.pool_.Run(static_cast<int>(count * partitions), [&](int chunk, int worker) {
    const int64_t item = chunk / partitions, partition = chunk % partitions;
    const QueryTile& tile = tiles[static_cast<size_t>(item / kv_.kv_heads)];
    if (partition >= PartitionsOf(tile)) return;
    float* scratch = ops_.ScratchOf(worker).Floats(PrepareFloats());
    AttentionTask task = Prepare(tile, item % kv_.kv_heads, scratch);
    Attend(task, partition, sums_of(item, partition));
  });
  for (int64_t item = 0; item < count; ++item) {
    const QueryTile& tile = tiles[static_cast<size_t>(item / kv_.kv_heads)];
    for (int64_t p = 1; p < PartitionsOf(tile); ++p)
      Take(tile, p, sums_of(item, p), sums_of(item, 0));
    Finish(tile, item % kv_.kv_heads, sums_of(item, 0));
  }
}

void AttentionRun::Run(float scale) {
  scale_ = scale;
  MakeTiles();
  const auto items = static_cast<int64_t>(ops_.query_tiles_.size()) * kv_.kv_heads;
  const int64_t partitions = (layout_.context_max + kPartition - 1) / kPartition;
  // Heads that do not end with a block of 32 are quantised when a row is complete.
  const bool whole_rows = out_.format == ActivationFormat::kQ8 && head_dim_ % 32 != 0;
  if (whole_rows) rows_ = ops_.shared_.Floats(layout_.tokens * out_.cols);
  const int threads = ops_.pool_.threads();
  if (threads > 1 && partitions > 1 && items < 4 * threads &&
      items * partitions <= ThreadPool::kChunksMax) {
    RunPartitions();
  } else {
    RunTiles();
  }
  if (!whole_rows) return;
  for (int64_t t = 0; t < layout_.tokens; ++t)
    ops_.StoreRowUnrefined(out_, t, rows_ + t * out_.cols);
}

void CpuOps::DoPagedAttention(ActivationView out, ConstTensorView q, const KvLayerView& kv,
                              const AttentionLayout& layout, float scale) {
  if (layout.tokens == 0) return;
  SLUICE_CHECK_EQ(kv.block_size % 16, 0) << "tokens a KV block";
  AttentionRun(*this, out, q, kv, layout).Run(scale);
}

}  // namespace sluice::kernels
