#include "engine/load.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <utility>

#include "engine/base/log.h"
#include "engine/base/system.h"
#include "engine/exec/executor.h"
#include "engine/exec/worker.h"
#include "engine/load_backend.h"
#include "engine/load_memory.h"
#include "engine/load_tokenizer.h"
#include "engine/model/gguf.h"
#include "engine/model/model_config.h"
#include "engine/model/weights.h"

namespace sluice::engine {
namespace {

constexpr int32_t kBlockSizeStep = 16;  // what the fast kernels take at a time
constexpr int32_t kBlockSizeMax = 1024;
constexpr int32_t kSlotsMax = 4096;
constexpr int32_t kStepTokensMax = 1 << 16;

kernels::DType KvTypeOf(KvDType dtype) {
  return dtype == KvDType::kF16 ? kernels::DType::kF16 : kernels::DType::kF32;
}

absl::Status InRange(const char* name, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return InvalidArgument(std::string(name) + ": " + std::to_string(value) + " is not in [" +
                         std::to_string(low) + ", " + std::to_string(high) + "]");
}

absl::Status ValidateOptions(const ModelOptions& options) {
  SLUICE_RETURN_IF_ERROR(InRange("block_size", options.block_size, kBlockSizeStep, kBlockSizeMax));
  if (options.block_size % kBlockSizeStep != 0) {
    return InvalidArgument("block_size: " + std::to_string(options.block_size) +
                           " is not a multiple of " + std::to_string(kBlockSizeStep));
  }
  SLUICE_RETURN_IF_ERROR(InRange("running_max", options.engine.running_max, 1, kSlotsMax));
  SLUICE_RETURN_IF_ERROR(InRange("step_tokens", options.engine.step_tokens, 1, kStepTokensMax));
  SLUICE_RETURN_IF_ERROR(InRange("context_tokens", options.context_tokens, 0, INT32_MAX));
  SLUICE_RETURN_IF_ERROR(InRange("kv_bytes", options.kv_bytes, 0, INT64_MAX));
  if (!(options.memory_fraction > 0 && options.memory_fraction <= 1)) {
    return InvalidArgument("memory_fraction: " + std::to_string(options.memory_fraction) +
                           " is not in (0, 1]");
  }
  return absl::OkStatus();
}

// Runs `load`, with the standard library's exceptions (out of memory) turned into a status.
template <typename Load>
auto Guarded(const Load& load) -> decltype(load()) {
  try {
    return load();
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("out of memory while loading the model");
  } catch (const std::exception& e) {
    return Internal(std::string("loading the model failed: ") + e.what());
  }
}

}  // namespace

struct LoadableModel::Impl {
  ModelOptions options;
  std::string name;
  std::unique_ptr<const GgufFile> file;
  ModelConfig config;  // context_tokens: what is served
  WeightPlan plan;
  std::unique_ptr<kernels::Backend> backend;
  std::string backend_text;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const ChatTemplate> chat_template;
  MemoryPlan memory;

  absl::Status Open();
  absl::Status OpenModel();
  absl::Status OpenTokenizer();
  absl::Status OpenTemplate();
  absl::Status Plan();
  ExecutorLimits Limits() const;
};

absl::Status LoadableModel::Impl::Open() {
  SLUICE_RETURN_IF_ERROR(ValidateOptions(options));
  SLUICE_RETURN_IF_ERROR(OpenModel());
  SLUICE_RETURN_IF_ERROR(OpenTokenizer());
  SLUICE_RETURN_IF_ERROR(OpenTemplate());
  SLUICE_ASSIGN_OR_RETURN(backend, CreateBackend(options));
  backend_text = backend->Describe();
  return Plan();
}

absl::Status LoadableModel::Impl::OpenModel() {
  SLUICE_ASSIGN_OR_RETURN(file, GgufFile::Open(options.path));
  SLUICE_ASSIGN_OR_RETURN(config, ModelConfigFromGguf(*file));
  SLUICE_ASSIGN_OR_RETURN(plan, WeightPlan::Create(*file, config));
  if (options.context_tokens > config.context_tokens) {
    return InvalidArgument("context_tokens: " + std::to_string(options.context_tokens) +
                           " is more than the model's " + std::to_string(config.context_tokens));
  }
  if (options.context_tokens > 0) config.context_tokens = options.context_tokens;
  // Not the file's general.name: conversion tools fill it with all kinds of things.
  name = !options.name.empty() ? options.name : std::filesystem::path(options.path).stem().string();
  return absl::OkStatus();
}

absl::Status LoadableModel::Impl::OpenTokenizer() {
  SLUICE_ASSIGN_OR_RETURN(TokenizerSpec spec, TokenizerSpecFromGguf(*file));
  if (spec.tokens.size() > static_cast<size_t>(config.vocabulary)) {
    return InvalidArgument(
        options.path + ": key 'tokenizer.ggml.tokens': " + std::to_string(spec.tokens.size()) +
        " tokens, but the embedding has " + std::to_string(config.vocabulary) + " rows");
  }
  SLUICE_ASSIGN_OR_RETURN(tokenizer, Tokenizer::Create(std::move(spec)));
  return absl::OkStatus();
}

// A template that does not compile costs chat, not the model.
absl::Status LoadableModel::Impl::OpenTemplate() {
  SLUICE_ASSIGN_OR_RETURN(const std::string_view source, ChatTemplateFromGguf(*file));
  if (source.empty()) return absl::OkStatus();
  auto compiled = ChatTemplate::Compile(source);
  if (compiled.ok()) {
    chat_template = std::move(compiled).value();
  } else {
    SLUICE_LOG(kWarning) << options.path
                         << ": the chat template is unusable: " << Message(compiled.status());
  }
  return absl::OkStatus();
}

ExecutorLimits LoadableModel::Impl::Limits() const {
  ExecutorLimits limits;
  limits.slots = options.engine.running_max;
  limits.step_tokens = options.engine.step_tokens;
  limits.kv_blocks = memory.kv_blocks;
  limits.block_size = options.block_size;
  limits.context_tokens = config.context_tokens;
  limits.vocabulary = config.vocabulary;
  return limits;
}

absl::Status LoadableModel::Impl::Plan() {
  MemoryNeeds needs;
  needs.weights_bytes = static_cast<int64_t>(plan.Bytes(*backend));
  needs.buffers_bytes = static_cast<int64_t>(Worker::BufferBytes(*backend, config, plan, Limits()));
  needs.block_size = options.block_size;
  needs.block_bytes = KvMemory::BlockBytes(config, options.block_size, KvTypeOf(options.kv_dtype));
  needs.context_tokens = config.context_tokens;
  needs.running_max = options.engine.running_max;
  needs.kv_bytes = options.kv_bytes;
  needs.limit_bytes =
      static_cast<int64_t>(options.memory_fraction * static_cast<double>(MemoryLimitBytes()));
  SLUICE_ASSIGN_OR_RETURN(memory, PlanMemory(needs));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<LoadableModel>> LoadableModel::Open(const ModelOptions& options) {
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  SLUICE_RETURN_IF_ERROR(Guarded([&] { return impl->Open(); }));
  return std::unique_ptr<LoadableModel>(new LoadableModel(std::move(impl)));
}

LoadableModel::LoadableModel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LoadableModel::~LoadableModel() = default;

const std::string& LoadableModel::name() const { return impl_->name; }
const MemoryPlan& LoadableModel::memory() const { return impl_->memory; }
std::string LoadableModel::DescribeBackend() const { return impl_->backend_text; }
int32_t LoadableModel::context_tokens() const { return impl_->config.context_tokens; }
std::shared_ptr<const Tokenizer> LoadableModel::tokenizer() const { return impl_->tokenizer; }
std::shared_ptr<const ChatTemplate> LoadableModel::chat_template() const {
  return impl_->chat_template;
}

std::string LoadableModel::bos_token() const {
  return std::string(impl_->tokenizer->TokenBytes(impl_->tokenizer->spec().bos_id));
}
std::string LoadableModel::eos_token() const {
  return std::string(impl_->tokenizer->TokenBytes(impl_->tokenizer->spec().eos_id));
}

std::string LoadableModel::Describe() const {
  const ModelConfig& c = impl_->config;
  const auto n = [](int64_t value) { return std::to_string(value); };
  return c.architecture + ", " + n(c.layers) + " layers, width " + n(c.width) + ", " + n(c.heads) +
         " query and " + n(c.kv_heads) + " kv heads of " + n(c.head_dim) + ", ffn " +
         n(c.ffn_width) + ", vocabulary " + n(c.vocabulary) + ", context " + n(c.context_tokens) +
         ", " + impl_->plan.DescribeFormats();
}

absl::StatusOr<std::unique_ptr<Engine>> LoadableModel::Load(
    const std::function<void(const LoadProgress&)>& progress, EngineObserver* observer,
    std::function<void(const absl::Status&)> on_fatal) {
  const auto report = [&progress](const char* stage, double fraction) {
    if (progress) progress({stage, fraction});
  };
  return Guarded([&]() -> absl::StatusOr<std::unique_ptr<Engine>> {
    if (impl_->backend == nullptr) return Internal("the model has been loaded already");
    Worker::Parts parts;
    parts.config = impl_->config;
    SLUICE_ASSIGN_OR_RETURN(parts.weights, impl_->plan.Load(*impl_->backend, [&](double fraction) {
      report("weights", fraction);
    }));
    parts.backend = std::move(impl_->backend);
    SLUICE_ASSIGN_OR_RETURN(auto worker,
                            Worker::Create(std::move(parts), impl_->plan, impl_->Limits(),
                                           KvTypeOf(impl_->options.kv_dtype)));
    report("warm-up", 0);
    worker->WarmUp();
    report("warm-up", 1);
    Engine::Parts engine;
    engine.tokenizer = impl_->tokenizer;
    engine.executor =
        std::make_unique<WorkerExecutor>(std::move(worker), impl_->options.engine.step_timeout);
    engine.observer = observer;
    engine.on_fatal = std::move(on_fatal);
    return std::make_unique<Engine>(std::move(engine), impl_->options.engine);
  });
}

}  // namespace sluice::engine
