#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/status.h"
#include "engine/model/device_memory.h"
#include "engine/model/model_config.h"
#include "engine/plan/step_plan.h"
#include "kernels/backend.h"

namespace sluice::engine {

// Keys and values of all sequences: `blocks` blocks of `block_size` tokens, each contiguous over
// the layers (kernels/tensor.h, KvLayerView). Which block belongs to whom is the planning half's
// affair.
class KvMemory {
 public:
  struct Shape {
    int32_t blocks = 0;
    int32_t block_size = 0;  // tokens
    kernels::DType dtype = kernels::DType::kF16;
  };
  // Bytes of one block.
  static int64_t BlockBytes(const ModelConfig& config, int32_t block_size, kernels::DType dtype);

  // ResourceExhausted when the memory can't be had.
  static absl::StatusOr<KvMemory> Create(kernels::Backend& backend, const ModelConfig& config,
                                         const Shape& shape);

  std::span<const kernels::KvLayerView> layers() const { return layers_; }
  void Copy(kernels::Ops& ops, std::span<const BlockCopy> copies);
  const Shape& shape() const { return shape_; }

 private:
  DeviceMemory memory_;
  Shape shape_;
  std::vector<kernels::KvLayerView> layers_;
  std::vector<kernels::BlockCopy> copies_;
};

}  // namespace sluice::engine
