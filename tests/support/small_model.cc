#include "tests/support/small_model.h"

#include <cmath>
#include <random>

#include "kernels/numeric.h"

namespace sluice::testing {
namespace {

constexpr uint32_t kF32 = 0, kF16 = 1;

void EncodeBlockQ8(std::mt19937_64& random, float scale, EncodedMatrix& out) {
  const uint16_t half = kernels::FloatToHalf(scale);
  GgufWriter::Append(out.bytes, half);
  for (int i = 0; i < 32; ++i) {
    const auto q = static_cast<int8_t>(static_cast<int>(random() % 255) - 127);
    GgufWriter::Append(out.bytes, q);
    out.values.push_back(kernels::HalfToFloat(half) * static_cast<float>(q));
  }
}

void AddVocabulary(const SmallModel& model, GgufWriter& writer) {
  std::vector<std::string> tokens{"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
  std::vector<int32_t> types{3, 3, 3};
  const std::string letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,!?";
  for (const char c : letters) tokens.emplace_back(1, c);
  for (const char* merged : {"ab", "cd", "abcd"}) tokens.emplace_back(merged);
  while (tokens.size() < model.vocabulary) tokens.push_back("x" + std::to_string(tokens.size()));
  tokens.resize(model.vocabulary);
  types.resize(model.vocabulary, 1);
  writer.String("tokenizer.ggml.model", "gpt2")
      .String("tokenizer.ggml.pre", "gpt-2")
      .Strings("tokenizer.ggml.tokens", tokens)
      .I32s("tokenizer.ggml.token_type", types)
      .Strings("tokenizer.ggml.merges", {"a b", "c d", "ab cd"})
      .U32("tokenizer.ggml.bos_token_id", 1)
      .U32("tokenizer.ggml.eos_token_id", 2)
      .Bool("tokenizer.ggml.add_bos_token", false)
      .String("tokenizer.chat_template",
              "{% for m in messages %}{{ m['content'] }}<|im_end|>{% endfor %}");
}

}  // namespace

uint64_t SeedOf(const SmallModel& model, const std::string& tensor) {
  return model.seed * 1'000'003 + std::hash<std::string>{}(tensor);
}

EncodedMatrix RandomMatrix(uint64_t seed, uint32_t rows, uint32_t cols, uint32_t type) {
  std::mt19937_64 random(seed);
  EncodedMatrix out;
  const float size = 1.0f / std::sqrt(static_cast<float>(cols));
  std::uniform_real_distribution<float> uniform(-2 * size, 2 * size);
  const size_t n = size_t{rows} * cols;
  while (out.values.size() < n) {
    if (type == kF32) {
      out.values.push_back(uniform(random));
      GgufWriter::Append(out.bytes, out.values.back());
    } else if (type == kF16) {
      const uint16_t half = kernels::FloatToHalf(uniform(random));
      out.values.push_back(kernels::HalfToFloat(half));
      GgufWriter::Append(out.bytes, half);
    } else {
      EncodeBlockQ8(random, 2 * size / 127, out);
    }
  }
  return out;
}

GgufWriter SmallModel::Write() const {
  GgufWriter writer;
  writer.String("general.architecture", "llama")
      .String("general.name", "Small Model")
      .U32("llama.block_count", layers)
      .U32("llama.context_length", context)
      .U32("llama.embedding_length", width)
      .U32("llama.feed_forward_length", ffn)
      .U32("llama.attention.head_count", heads)
      .U32("llama.attention.head_count_kv", kv_heads)
      .U32("llama.attention.key_length", head_dim)
      .U32("llama.attention.value_length", head_dim)
      .U32("llama.rope.dimension_count", head_dim)
      .F32("llama.rope.freq_base", 10000)
      .F32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  if (!rope_scaling.empty()) {
    writer.String("llama.rope.scaling.type", rope_scaling)
        .F32("llama.rope.scaling.factor", rope_factor);
  }
  if (attention_scale > 0) writer.F32("llama.attention.scale", attention_scale);
  AddVocabulary(*this, writer);

  const auto matrix = [&](const std::string& name, uint32_t rows, uint32_t cols, uint32_t type) {
    writer.Tensor(name, {cols, rows}, type,
                  RandomMatrix(SeedOf(*this, name), rows, cols, type).bytes);
  };
  const auto norm = [&](const std::string& name) {
    writer.Tensor(name, {width}, kF32, RandomMatrix(SeedOf(*this, name), 1, width, kF32).bytes);
  };
  matrix("token_embd.weight", vocabulary, width, matrix_type);
  for (uint32_t i = 0; i < layers; ++i) {
    const std::string prefix = "blk." + std::to_string(i) + ".";
    norm(prefix + "attn_norm.weight");
    matrix(prefix + "attn_q.weight", heads * head_dim, width, matrix_type);
    matrix(prefix + "attn_k.weight", kv_heads * head_dim, width, matrix_type);
    matrix(prefix + "attn_v.weight", kv_heads * head_dim, width, value_type);
    matrix(prefix + "attn_output.weight", width, heads * head_dim, matrix_type);
    norm(prefix + "ffn_norm.weight");
    matrix(prefix + "ffn_gate.weight", ffn, width, matrix_type);
    matrix(prefix + "ffn_up.weight", ffn, width, matrix_type);
    matrix(prefix + "ffn_down.weight", width, ffn, matrix_type);
  }
  norm("output_norm.weight");
  if (!tied) matrix("output.weight", vocabulary, width, matrix_type);
  if (!rope_freqs.empty()) {
    std::string bytes;
    for (const float f : rope_freqs) GgufWriter::Append(bytes, f);
    writer.Tensor("rope_freqs.weight", {rope_freqs.size()}, kF32, bytes);
  }
  return writer;
}

}  // namespace sluice::testing
