#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/base/status.h"
#include "engine/engine.h"
#include "engine/template/chat_template.h"

namespace sluice::engine {

enum class ActivationChoice { kInt8, kF32 };
enum class KvDType { kF16, kF32 };
enum class BackendChoice { kAuto, kCpu, kReference };

// Everything about one model's engine that is fixed at start-up.
struct ModelOptions {
  std::string path;  // a GGUF file
  std::string name;  // served name; empty: the file's base name without .gguf
  BackendChoice backend = BackendChoice::kAuto;
  std::string isa = "auto";  // CPU instruction set: auto, avx2, avx512
  ActivationChoice activations = ActivationChoice::kInt8;
  KvDType kv_dtype = KvDType::kF16;
  int32_t threads = 0;         // compute threads; 0: as many as the cgroup quota and affinity give
  int32_t context_tokens = 0;  // most tokens of one sequence; 0: the model's own
  int32_t block_size = 16;     // tokens a KV block
  // KV memory; 0: what context_tokens * running_max wants, within memory_fraction and at most 1 GiB
  // or four contexts, whichever is more.
  int64_t kv_bytes = 0;
  double memory_fraction =
      0.8;  // of the memory limit (cgroup or machine) for weights, KV and buffers
  EngineOptions engine;
};

// The memory a model will take, computed from its header before anything is read.
struct MemoryPlan {
  int64_t weights_bytes = 0;
  int64_t kv_bytes = 0;
  int64_t buffers_bytes = 0;  // activations, logits, tables
  int64_t limit_bytes = 0;    // memory_fraction of the cgroup's or the machine's memory
  int32_t kv_blocks = 0;
  int64_t kv_tokens = 0;
};

struct LoadProgress {
  std::string stage;    // "weights", "warm-up"
  double fraction = 0;  // 0..1
};

// A model whose header has been read and checked and whose memory is known to fit.
class LoadableModel {
 public:
  // Reads the header. InvalidArgument / NotFound for a bad file; ResourceExhausted with the bytes
  // needed and found when it can't fit.
  static absl::StatusOr<std::unique_ptr<LoadableModel>> Open(const ModelOptions& options);
  ~LoadableModel();

  const std::string& name() const;
  const MemoryPlan& memory() const;
  std::string Describe() const;  // one line: family, layers, widths, vocabulary, context, formats
  std::string DescribeBackend() const;
  int32_t context_tokens() const;
  std::shared_ptr<const Tokenizer> tokenizer() const;
  // Null when the file has no chat template.
  std::shared_ptr<const ChatTemplate> chat_template() const;
  std::string bos_token()
      const;  // text of the special tokens, for templates; empty when there is none
  std::string eos_token() const;

  // Reads the weights, warms up and starts the engine. Call once. `progress` may be called from
  // this thread only. `observer` and `on_fatal` as in Engine::Parts.
  absl::StatusOr<std::unique_ptr<Engine>> Load(
      const std::function<void(const LoadProgress&)>& progress, EngineObserver* observer,
      std::function<void(const absl::Status&)> on_fatal);

 private:
  struct Impl;
  explicit LoadableModel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::engine
