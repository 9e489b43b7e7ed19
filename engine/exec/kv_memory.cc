#include "engine/exec/kv_memory.h"

#include <utility>

namespace sluice::engine {
namespace {

int64_t LayerBytes(const ModelConfig& config, int32_t block_size, kernels::DType dtype) {
  return 2 * int64_t{config.kv_heads} *
         kernels::BytesOf(dtype, int64_t{block_size} * config.head_dim);
}

}  // namespace

int64_t KvMemory::BlockBytes(const ModelConfig& config, int32_t block_size, kernels::DType dtype) {
  return static_cast<int64_t>(
      AlignUp(static_cast<size_t>(config.layers * LayerBytes(config, block_size, dtype))));
}

absl::StatusOr<KvMemory> KvMemory::Create(kernels::Backend& backend, const ModelConfig& config,
                                          const Shape& shape) {
  KvMemory kv;
  kv.shape_ = shape;
  const int64_t block_bytes = BlockBytes(config, shape.block_size, shape.dtype);
  SLUICE_ASSIGN_OR_RETURN(
      kv.memory_, DeviceMemory::Allocate(backend, static_cast<size_t>(shape.blocks * block_bytes),
                                         "keys and values"));
  for (int32_t layer = 0; layer < config.layers; ++layer) {
    kernels::KvLayerView view;
    view.base = kv.memory_.data();
    view.blocks = shape.blocks;
    view.block_bytes = block_bytes;
    view.layer_offset = layer * LayerBytes(config, shape.block_size, shape.dtype);
    view.dtype = shape.dtype;
    view.block_size = shape.block_size;
    view.kv_heads = config.kv_heads;
    view.head_dim = config.head_dim;
    kv.layers_.push_back(view);
  }
  return kv;
}

void KvMemory::Copy(kernels::Ops& ops, std::span<const BlockCopy> copies) {
  copies_.clear();
  for (const BlockCopy& copy : copies) copies_.push_back({copy.from, copy.to});
  ops.CopyBlocks(layers_.front(), copies_);
}

}  // namespace sluice::engine
