#include "engine/model/model_config.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <string_view>

namespace sluice::engine {
namespace {

// What distinguishes the families beyond their keys.
struct Architecture {
  std::string_view name;
  kernels::RopePairs rope_pairs;
  kernels::GateKind gate;
};
// "llama" is also how Mistral, SmolLM and others of its shape are stored; its writers permute q and
// k so that rotary pairs are adjacent.
constexpr Architecture kArchitectures[] = {
    {"llama", kernels::RopePairs::kAdjacent, kernels::GateKind::kSilu},
};

constexpr int64_t kLayersMax = 1024;
constexpr int64_t kWidthMax = 1 << 16;
constexpr int64_t kHeadsMax = 1024;
constexpr int64_t kHeadDimMax = 256;
constexpr int64_t kFfnWidthMax = 1 << 20;
constexpr int64_t kVocabularyMax = 1 << 20;
constexpr int64_t kContextMax = 1 << 24;

// Reads keys of one architecture.
class Keys {
 public:
  Keys(const GgufFile& file, std::string_view architecture)
      : file_(file), prefix_(std::string(architecture) + ".") {}

  absl::Status Bad(std::string_view key, const std::string& what) const {
    return InvalidArgument(file_.name() + ": key " + Quoted(prefix_ + std::string(key)) + ": " +
                           what);
  }
  // An integer in [1, max]; `fallback` when the key is absent, or an error when that is 0.
  absl::Status Int(std::string_view key, int64_t max, int64_t fallback, int32_t& out) const {
    SLUICE_ASSIGN_OR_RETURN(const auto stated, file_.FindInt(prefix_ + std::string(key)));
    if (!stated && fallback == 0) return Bad(key, "missing");
    const int64_t value = stated.value_or(fallback);
    if (value < 1 || value > max) {
      return Bad(key, std::to_string(value) + " is not in [1, " + std::to_string(max) + "]");
    }
    out = static_cast<int32_t>(value);
    return absl::OkStatus();
  }
  // A finite number in (0, max]; `fallback` when the key is absent, or an error when that is 0.
  absl::Status Float(std::string_view key, double max, double fallback, double& out) const {
    SLUICE_ASSIGN_OR_RETURN(const auto stated, file_.FindFloat(prefix_ + std::string(key)));
    if (!stated && fallback == 0) return Bad(key, "missing");
    const double value = stated.value_or(fallback);
    if (!(value > 0 && value <= max)) {
      return Bad(key, std::to_string(value) + " is not in (0, " + std::to_string(max) + "]");
    }
    out = value;
    return absl::OkStatus();
  }
  absl::StatusOr<std::optional<int64_t>> OptionalInt(std::string_view key) const {
    return file_.FindInt(prefix_ + std::string(key));
  }
  absl::StatusOr<std::optional<std::string_view>> OptionalString(std::string_view key) const {
    return file_.FindString(prefix_ + std::string(key));
  }

 private:
  const GgufFile& file_;
  const std::string prefix_;
};

absl::StatusOr<const Architecture*> FindArchitecture(const GgufFile& file) {
  SLUICE_ASSIGN_OR_RETURN(const auto name, file.FindString("general.architecture"));
  if (!name) return InvalidArgument(file.name() + ": key 'general.architecture': missing");
  std::string known;
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.name == *name) return &architecture;
    known += (known.empty() ? "" : ", ") + std::string(architecture.name);
  }
  return InvalidArgument(file.name() + ": architecture " + Quoted(*name) +
                         " is not supported; supported: " + known);
}

absl::Status ReadHeads(const Keys& keys, ModelConfig& config) {
  SLUICE_RETURN_IF_ERROR(keys.Int("attention.head_count", kHeadsMax, 0, config.heads));
  SLUICE_RETURN_IF_ERROR(
      keys.Int("attention.head_count_kv", kHeadsMax, config.heads, config.kv_heads));
  if (config.heads % config.kv_heads != 0) {
    return keys.Bad("attention.head_count_kv", std::to_string(config.kv_heads) +
                                                   " does not divide the " +
                                                   std::to_string(config.heads) + " query heads");
  }
  const bool even = config.width % config.heads == 0;
  SLUICE_RETURN_IF_ERROR(keys.Int("attention.key_length", kHeadDimMax,
                                  even ? config.width / config.heads : 0, config.head_dim));
  if (config.head_dim % 8 != 0) {
    return keys.Bad("attention.key_length",
                    "head size " + std::to_string(config.head_dim) + " is not a multiple of 8");
  }
  int32_t value_dim = 0;
  SLUICE_RETURN_IF_ERROR(
      keys.Int("attention.value_length", kHeadDimMax, config.head_dim, value_dim));
  if (value_dim != config.head_dim) {
    return keys.Bad(
        "attention.value_length",
        std::to_string(value_dim) + " differs from the key's " + std::to_string(config.head_dim));
  }
  double scale = 0;
  SLUICE_RETURN_IF_ERROR(keys.Float("attention.scale", 1e3,
                                    1.0 / std::sqrt(static_cast<double>(config.head_dim)), scale));
  config.attention_scale = static_cast<float>(scale);
  return absl::OkStatus();
}

absl::Status ReadRope(const Keys& keys, ModelConfig& config) {
  SLUICE_RETURN_IF_ERROR(
      keys.Int("rope.dimension_count", config.head_dim, config.head_dim, config.rope_dims));
  if (config.rope_dims % 2 != 0) {
    return keys.Bad("rope.dimension_count", std::to_string(config.rope_dims) + " is odd");
  }
  SLUICE_RETURN_IF_ERROR(keys.Float("rope.freq_base", 1e12, 10'000, config.rope_base));
  SLUICE_ASSIGN_OR_RETURN(const auto scaling, keys.OptionalString("rope.scaling.type"));
  const std::string_view type = scaling.value_or("");
  if (type == "linear") {
    return keys.Float("rope.scaling.factor", 1e6, 0, config.rope_scale);
  }
  if (!type.empty() && type != "none") {
    return keys.Bad("rope.scaling.type",
                    Quoted(type) + " is not supported; supported: none, linear");
  }
  // How files said "linear" before there was a type.
  return keys.Float("rope.scale_linear", 1e6, 1, config.rope_scale);
}

// Keys of features that would change the arithmetic and are not there.
absl::Status RefuseOthers(const Keys& keys, ModelConfig& config) {
  SLUICE_ASSIGN_OR_RETURN(const auto experts, keys.OptionalInt("expert_count"));
  if (experts.value_or(0) != 0) {
    return keys.Bad("expert_count", std::to_string(*experts) + " is not supported; supported: 0");
  }
  // Within the window a sliding-window model is a full-attention one.
  SLUICE_ASSIGN_OR_RETURN(const auto window, keys.OptionalInt("attention.sliding_window"));
  if (window.value_or(0) > 0) {
    config.context_tokens = static_cast<int32_t>(std::min<int64_t>(config.context_tokens, *window));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelConfig> ModelConfigFromGguf(const GgufFile& file) {
  SLUICE_ASSIGN_OR_RETURN(const Architecture* architecture, FindArchitecture(file));
  ModelConfig config;
  config.architecture = architecture->name;
  config.rope_pairs = architecture->rope_pairs;
  config.gate = architecture->gate;
  const Keys keys(file, architecture->name);
  SLUICE_RETURN_IF_ERROR(keys.Int("block_count", kLayersMax, 0, config.layers));
  SLUICE_RETURN_IF_ERROR(keys.Int("embedding_length", kWidthMax, 0, config.width));
  SLUICE_RETURN_IF_ERROR(keys.Int("feed_forward_length", kFfnWidthMax, 0, config.ffn_width));
  SLUICE_RETURN_IF_ERROR(keys.Int("context_length", kContextMax, 0, config.context_tokens));
  double epsilon = 0;
  SLUICE_RETURN_IF_ERROR(keys.Float("attention.layer_norm_rms_epsilon", 1, 0, epsilon));
  config.norm_epsilon = static_cast<float>(epsilon);
  SLUICE_RETURN_IF_ERROR(ReadHeads(keys, config));
  SLUICE_RETURN_IF_ERROR(ReadRope(keys, config));
  SLUICE_RETURN_IF_ERROR(RefuseOthers(keys, config));

  // The vocabulary is what the embedding has; a stated size must agree.
  const GgufTensor* embedding = file.FindTensor("token_embd.weight");
  if (embedding == nullptr)
    return InvalidArgument(file.name() + ": tensor 'token_embd.weight' is missing");
  if (embedding->rank != 2 || embedding->rows() > kVocabularyMax) {
    return InvalidArgument(file.name() + ": tensor 'token_embd.weight' has " +
                           std::to_string(embedding->rank) + " dimensions and " +
                           std::to_string(embedding->rows()) + " rows; expected 2 and at most " +
                           std::to_string(kVocabularyMax));
  }
  SLUICE_RETURN_IF_ERROR(
      keys.Int("vocab_size", kVocabularyMax, embedding->rows(), config.vocabulary));
  if (config.vocabulary != embedding->rows()) {
    return keys.Bad("vocab_size", std::to_string(config.vocabulary) +
                                      " differs from the embedding's " +
                                      std::to_string(embedding->rows()) + " rows");
  }
  return config;
}

}  // namespace sluice::engine
