#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/model/device_memory.h"
#include "engine/model/gguf.h"
#include "engine/model/model_config.h"
#include "kernels/backend.h"

namespace sluice::engine {

// A matrix [rows, cols] put together from tensors that share their input: q, k, v as one. Those of
// one format are packed as one part; each part's product is a range of the output's columns.
struct StackedWeight {
  struct Part {
    kernels::WeightView weight;
    int64_t column = 0;  // of the output, where the part's first row goes
  };
  std::vector<Part> parts;
  int64_t rows = 0;
  int64_t cols = 0;
};

struct LayerWeights {
  kernels::ConstTensorView attention_norm;  // [E]
  StackedWeight qkv;                        // [(H + 2G) * D, E]
  StackedWeight attention_out;              // [E, H * D]
  kernels::ConstTensorView ffn_norm;        // [E]
  StackedWeight gate_up;                    // [2F, E]
  StackedWeight down;                       // [E, F]
};

// A model's weights in device memory, packed for one backend, which must outlive them.
struct ModelWeights {
  DeviceMemory memory;
  kernels::WeightView embedding;  // [V, E]
  std::vector<LayerWeights> layers;
  kernels::ConstTensorView final_norm;  // [E]
  StackedWeight head;                   // [V, E]; the embedding itself when the file has no other
  std::vector<float> rope_divisors;     // [R/2], or empty: the file's rope_freqs.weight
};

// Where each weight of a model lies in its file, with every shape checked. Cheap to make: reads the
// header alone. The file must outlive it.
class WeightPlan {
 public:
  // InvalidArgument names the tensor that is missing, has another shape than the configuration says
  // (both shapes), or is one that this architecture does not know.
  static absl::StatusOr<WeightPlan> Create(const GgufFile& file, const ModelConfig& config);

  // Device bytes that Load will take.
  size_t Bytes(const kernels::Backend& backend) const;
  // Whether some product wants its left side in this format.
  bool Uses(const kernels::Backend& backend, kernels::ActivationFormat format) const;
  // The formats present with the number of matrices of each: "Q4_1 x210, Q8_0".
  std::string DescribeFormats() const;

  // Packs everything into one allocation and gives back the file's pages on the way. `progress`
  // (may be empty) is called on this thread with the fraction of the file's bytes done.
  absl::StatusOr<std::unique_ptr<const ModelWeights>> Load(
      kernels::Backend& backend, const std::function<void(double)>& progress) const;

 private:
  // Tensors to be stacked by rows, in groups of one format.
  using Stack = std::vector<std::vector<const GgufTensor*>>;
  struct Layer {
    const GgufTensor* attention_norm;
    const GgufTensor* ffn_norm;
    Stack qkv, attention_out, gate_up, down;
  };
  class Finder;
  class Loader;

  // Calls visit(group) for each packed matrix, in the order of the device memory.
  void ForEachMatrix(const std::function<void(std::span<const GgufTensor* const>)>& visit) const;

  const GgufFile* file_ = nullptr;
  const GgufTensor* embedding_ = nullptr;
  const GgufTensor* final_norm_ = nullptr;
  const GgufTensor* rope_freqs_ = nullptr;  // null: none
  std::vector<Layer> layers_;
  Stack head_;  // empty: tied
  int64_t width_ = 0;
};

}  // namespace sluice::engine
