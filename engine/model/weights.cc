#include "engine/model/weights.h"

#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "kernels/check.h"
#include "kernels/dequantize.h"

namespace sluice::engine {
namespace {

using kernels::Backend;
using kernels::DType;

bool IsPlainFloat(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

size_t GroupBytes(const Backend& backend, std::span<const GgufTensor* const> group) {
  int64_t rows = 0;
  for (const GgufTensor* tensor : group) rows += tensor->rows();
  return AlignUp(backend.PackedBytes(group[0]->dtype, rows, group[0]->cols()));
}

}  // namespace

// Looks tensors up with their shapes and remembers which were asked for.
class WeightPlan::Finder {
 public:
  explicit Finder(const GgufFile& file) : file_(file) {}

  absl::StatusOr<const GgufTensor*> Matrix(const std::string& name, int64_t rows, int64_t cols) {
    const GgufTensor* tensor = file_.FindTensor(name);
    if (tensor == nullptr) return Bad(name, "is missing");
    if (tensor->cols() != cols || tensor->rows() != rows || tensor->rank > 2) {
      std::string found;
      for (int i = 0; i < tensor->rank; ++i) {
        found += (i ? ", " : "") + std::to_string(tensor->dims[static_cast<size_t>(i)]);
      }
      return Bad(name, "at byte " + std::to_string(tensor->offset) + " has shape [" + found +
                           "], expected [" + std::to_string(cols) +
                           (rows == 1 ? "" : ", " + std::to_string(rows)) + "]");
    }
    known_.insert(tensor->name);
    return tensor;
  }
  absl::StatusOr<const GgufTensor*> Floats(const std::string& name, int64_t n) {
    SLUICE_ASSIGN_OR_RETURN(const GgufTensor* tensor, Matrix(name, 1, n));
    if (!IsPlainFloat(tensor->dtype)) {
      return Bad(name, "is " + std::string(kernels::InfoOf(tensor->dtype).name) +
                           ", expected F32, F16 or BF16");
    }
    return tensor;
  }
  // Tensors of `cols` inputs each, stacked; neighbours of one format form a group.
  absl::StatusOr<Stack> Stacked(const std::vector<std::pair<std::string, int64_t>>& named_rows,
                                int64_t cols) {
    Stack stack;
    for (const auto& [name, rows] : named_rows) {
      SLUICE_ASSIGN_OR_RETURN(const GgufTensor* tensor, Matrix(name, rows, cols));
      if (stack.empty() || stack.back()[0]->dtype != tensor->dtype) stack.emplace_back();
      stack.back().push_back(tensor);
    }
    return stack;
  }
  // A tensor that nothing asked for would change the result if it were left out.
  absl::Status NoneLeft(const ModelConfig& config) const {
    for (const GgufTensor& tensor : file_.tensors()) {
      if (known_.count(tensor.name) == 0) {
        return InvalidArgument(file_.name() + ": tensor " + Quoted(tensor.name) +
                               " is not one that architecture '" + config.architecture + "' with " +
                               std::to_string(config.layers) + " layers knows");
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Bad(const std::string& name, const std::string& what) const {
    return InvalidArgument(file_.name() + ": tensor " + Quoted(name) + " " + what);
  }
  const GgufFile& file_;
  std::set<std::string_view> known_;
};

absl::StatusOr<WeightPlan> WeightPlan::Create(const GgufFile& file, const ModelConfig& config) {
  WeightPlan plan;
  plan.file_ = &file;
  plan.width_ = config.width;
  Finder find(file);
  const int64_t width = config.width, ffn = config.ffn_width;
  const int64_t q_rows = int64_t{config.heads} * config.head_dim;
  const int64_t kv_rows = int64_t{config.kv_heads} * config.head_dim;

  SLUICE_ASSIGN_OR_RETURN(plan.embedding_,
                          find.Matrix("token_embd.weight", config.vocabulary, width));
  for (int32_t i = 0; i < config.layers; ++i) {
    const std::string prefix = "blk." + std::to_string(i) + ".";
    Layer layer{};
    SLUICE_ASSIGN_OR_RETURN(layer.attention_norm, find.Floats(prefix + "attn_norm.weight", width));
    SLUICE_ASSIGN_OR_RETURN(layer.ffn_norm, find.Floats(prefix + "ffn_norm.weight", width));
    SLUICE_ASSIGN_OR_RETURN(layer.qkv, find.Stacked({{prefix + "attn_q.weight", q_rows},
                                                     {prefix + "attn_k.weight", kv_rows},
                                                     {prefix + "attn_v.weight", kv_rows}},
                                                    width));
    SLUICE_ASSIGN_OR_RETURN(layer.attention_out,
                            find.Stacked({{prefix + "attn_output.weight", width}}, q_rows));
    SLUICE_ASSIGN_OR_RETURN(
        layer.gate_up,
        find.Stacked({{prefix + "ffn_gate.weight", ffn}, {prefix + "ffn_up.weight", ffn}}, width));
    SLUICE_ASSIGN_OR_RETURN(layer.down, find.Stacked({{prefix + "ffn_down.weight", width}}, ffn));
    plan.layers_.push_back(std::move(layer));
  }
  SLUICE_ASSIGN_OR_RETURN(plan.final_norm_, find.Floats("output_norm.weight", width));
  if (file.FindTensor("output.weight") != nullptr) {
    SLUICE_ASSIGN_OR_RETURN(plan.head_,
                            find.Stacked({{"output.weight", config.vocabulary}}, width));
  }
  if (file.FindTensor("rope_freqs.weight") != nullptr) {
    SLUICE_ASSIGN_OR_RETURN(plan.rope_freqs_,
                            find.Floats("rope_freqs.weight", config.rope_dims / 2));
  }
  SLUICE_RETURN_IF_ERROR(find.NoneLeft(config));
  return plan;
}

void WeightPlan::ForEachMatrix(
    const std::function<void(std::span<const GgufTensor* const>)>& visit) const {
  visit({&embedding_, 1});
  for (const Layer& layer : layers_) {
    for (const Stack* stack : {&layer.qkv, &layer.attention_out, &layer.gate_up, &layer.down}) {
      for (const auto& group : *stack) visit(group);
    }
  }
  for (const auto& group : head_) visit(group);
}

size_t WeightPlan::Bytes(const Backend& backend) const {
  const size_t norm_bytes = AlignUp(static_cast<size_t>(width_) * sizeof(float));
  size_t bytes = norm_bytes * (2 * layers_.size() + 1);
  ForEachMatrix([&](auto group) { bytes += GroupBytes(backend, group); });
  return bytes;
}

bool WeightPlan::Uses(const Backend& backend, kernels::ActivationFormat format) const {
  bool uses = head_.empty() && backend.ActivationFormatFor(embedding_->dtype) == format;
  ForEachMatrix([&](auto group) {
    // The embedding alone is no product.
    uses |= group[0] != embedding_ && backend.ActivationFormatFor(group[0]->dtype) == format;
  });
  return uses;
}

std::string WeightPlan::DescribeFormats() const {
  std::map<std::string_view, int> count;
  ForEachMatrix([&](auto group) {
    count[kernels::InfoOf(group[0]->dtype).name] += static_cast<int>(group.size());
  });
  std::string out;
  for (const auto& [name, n] : count) {
    out += (out.empty() ? "" : ", ") + std::string(name) + " x" + std::to_string(n);
  }
  return out;
}

// One pass over the plan: cuts device memory, fills it, drops the file's pages.
class WeightPlan::Loader {
 public:
  Loader(const GgufFile& file, Backend& backend, std::byte* memory,
         const std::function<void(double)>& progress)
      : file_(file), backend_(backend), carver_(memory), progress_(progress) {
    for (const GgufTensor& tensor : file.tensors()) total_ += tensor.bytes;
  }

  kernels::WeightView Pack(std::span<const GgufTensor* const> group) {
    std::vector<kernels::RawMatrix> raw;
    for (const GgufTensor* tensor : group) {
      raw.push_back({tensor->dtype, tensor->rows(), tensor->cols(), tensor->data});
    }
    const auto weight = backend_.PackWeight(carver_.Take(GroupBytes(backend_, group)), raw);
    for (const GgufTensor* tensor : group) Done(*tensor);
    return weight;
  }
  StackedWeight PackStack(const Stack& stack) {
    StackedWeight stacked;
    for (const auto& group : stack) {
      const kernels::WeightView weight = Pack(group);
      stacked.parts.push_back({weight, stacked.rows});
      stacked.rows += weight.rows;
      stacked.cols = weight.cols;
    }
    return stacked;
  }
  std::vector<float> HostFloats(const GgufTensor& tensor) {
    std::vector<float> values(static_cast<size_t>(tensor.cols()));
    kernels::DequantizeRow(tensor.dtype, tensor.data, values.data(), tensor.cols());
    Done(tensor);
    return values;
  }
  kernels::ConstTensorView Norm(const GgufTensor& tensor) {
    const std::vector<float> values = HostFloats(tensor);
    const size_t bytes = values.size() * sizeof(float);
    std::byte* device = carver_.Take(bytes);
    backend_.CopyIn(device, values.data(), bytes);
    return kernels::Vector<kernels::ConstTensorView>(device, tensor.cols());
  }
  size_t used() const { return carver_.used(); }

 private:
  void Done(const GgufTensor& tensor) {
    file_.DropPages(tensor.data, static_cast<size_t>(tensor.bytes));
    done_ += tensor.bytes;
    if (progress_) progress_(static_cast<double>(done_) / static_cast<double>(total_));
  }
  const GgufFile& file_;
  Backend& backend_;
  Carver carver_;
  const std::function<void(double)>& progress_;
  int64_t done_ = 0, total_ = 0;
};

absl::StatusOr<std::unique_ptr<const ModelWeights>> WeightPlan::Load(
    Backend& backend, const std::function<void(double)>& progress) const {
  auto weights = std::make_unique<ModelWeights>();
  SLUICE_ASSIGN_OR_RETURN(weights->memory,
                          DeviceMemory::Allocate(backend, Bytes(backend), "weights"));
  Loader load(*file_, backend, weights->memory.data(), progress);
  weights->embedding = load.Pack({&embedding_, 1});
  for (const Layer& layer : layers_) {
    LayerWeights& out = weights->layers.emplace_back();
    out.attention_norm = load.Norm(*layer.attention_norm);
    out.qkv = load.PackStack(layer.qkv);
    out.attention_out = load.PackStack(layer.attention_out);
    out.ffn_norm = load.Norm(*layer.ffn_norm);
    out.gate_up = load.PackStack(layer.gate_up);
    out.down = load.PackStack(layer.down);
  }
  weights->final_norm = load.Norm(*final_norm_);
  if (head_.empty()) {
    const kernels::WeightView& table = weights->embedding;
    weights->head = {{{table, 0}}, table.rows, table.cols};
  } else {
    weights->head = load.PackStack(head_);
  }
  if (rope_freqs_ != nullptr) {
    weights->rope_divisors = load.HostFloats(*rope_freqs_);
    for (const float divisor : weights->rope_divisors) {
      if (!std::isfinite(divisor) || divisor <= 0) {
        return InvalidArgument(file_->name() + ": tensor 'rope_freqs.weight' holds " +
                               std::to_string(divisor) + "; expected finite numbers above 0");
      }
    }
  }
  SLUICE_CHECK_EQ(load.used(), weights->memory.bytes());
  backend.Synchronize();
  return std::unique_ptr<const ModelWeights>(std::move(weights));
}

}  // namespace sluice::engine
