// What a model file says of its shape, read or refused by name; and the tensors that must go with
// it.

#include "engine/model/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "engine/model/gguf.h"
#include "engine/model/weights.h"
#include "kernels/backend.h"
#include "tests/support/small_model.h"

namespace sluice::engine {
namespace {

using sluice::testing::GgufWriter;
using sluice::testing::SmallModel;
using ::testing::HasSubstr;

std::unique_ptr<const GgufFile> Parse(const std::string& bytes) {
  auto file = GgufFile::Parse(std::as_bytes(std::span(bytes.data(), bytes.size())), "m.gguf");
  EXPECT_TRUE(file.ok()) << Message(file.status());
  return std::move(file).value();
}

std::string ConfigError(const std::string& bytes) {
  const auto config = ModelConfigFromGguf(*Parse(bytes));
  return config.ok() ? "no error" : Message(config.status());
}
std::string PlanError(const std::string& bytes) {
  const auto file = Parse(bytes);
  const auto config = ModelConfigFromGguf(*file);
  if (!config.ok()) return Message(config.status());
  const auto plan = WeightPlan::Create(*file, *config);
  return plan.ok() ? "no error" : Message(plan.status());
}

TEST(ModelConfigTest, ReadsTheKeys) {
  SmallModel model;
  model.rope_scaling = "linear", model.rope_factor = 4;
  const std::string bytes = model.Write().Finish();
  const auto config = ModelConfigFromGguf(*Parse(bytes));
  ASSERT_TRUE(config.ok()) << Message(config.status());
  EXPECT_EQ(config->architecture, "llama");
  EXPECT_EQ(config->layers, 2);
  EXPECT_EQ(config->width, 64);
  EXPECT_EQ(config->heads, 4);
  EXPECT_EQ(config->kv_heads, 2);
  EXPECT_EQ(config->head_dim, 16);
  EXPECT_EQ(config->ffn_width, 96);
  EXPECT_EQ(config->vocabulary, 80);
  EXPECT_EQ(config->context_tokens, 128);
  EXPECT_FLOAT_EQ(config->norm_epsilon, 1e-5f);
  EXPECT_FLOAT_EQ(config->attention_scale, 0.25f);
  EXPECT_EQ(config->rope_pairs, kernels::RopePairs::kAdjacent);
  EXPECT_EQ(config->rope_dims, 16);
  EXPECT_EQ(config->rope_base, 10000);
  EXPECT_EQ(config->rope_scale, 4);
}

TEST(ModelConfigTest, ASlidingWindowBoundsTheContext) {
  const std::string bytes = SmallModel().Write().U32("llama.attention.sliding_window", 50).Finish();
  EXPECT_EQ(ModelConfigFromGguf(*Parse(bytes))->context_tokens, 50);
}

TEST(ModelConfigTest, RefusesOtherArchitecturesByName) {
  EXPECT_THAT(ConfigError(GgufWriter().String("general.architecture", "mamba").Finish()),
              HasSubstr("architecture 'mamba' is not supported; supported: llama"));
  EXPECT_THAT(ConfigError(GgufWriter().Finish()), HasSubstr("'general.architecture': missing"));
  EXPECT_THAT(ConfigError(GgufWriter().U32("general.architecture", 1).Finish()),
              HasSubstr("expected string, found u32"));
}

TEST(ModelConfigTest, RefusesValuesOutOfRange) {
  const auto with = [](auto change) {
    SmallModel model;
    change(model);
    return ConfigError(model.Write().Finish());
  };
  EXPECT_THAT(
      with([](SmallModel& m) { m.kv_heads = 3; }),
      HasSubstr("key 'llama.attention.head_count_kv': 3 does not divide the 4 query heads"));
  EXPECT_THAT(with([](SmallModel& m) { m.head_dim = 12, m.matrix_type = m.value_type = 0; }),
              HasSubstr("'llama.attention.key_length': head size 12 is not a multiple of 8"));
  EXPECT_THAT(with([](SmallModel& m) { m.head_dim = 264; }),
              HasSubstr("'llama.attention.key_length': 264 is not in [1, 256]"));
  EXPECT_THAT(with([](SmallModel& m) { m.context = 0; }),
              HasSubstr("'llama.context_length': 0 is not in [1, 16777216]"));
  EXPECT_THAT(with([](SmallModel& m) { m.rope_scaling = "yarn"; }),
              HasSubstr("'llama.rope.scaling.type': 'yarn' is not supported"));
  EXPECT_THAT(with([](SmallModel& m) { m.rope_scaling = "linear", m.rope_factor = -1; }),
              HasSubstr("'llama.rope.scaling.factor': -1.0"));
  EXPECT_THAT(ConfigError(SmallModel().Write().U32("llama.expert_count", 8).Finish()),
              HasSubstr("'llama.expert_count': 8 is not supported"));
  EXPECT_THAT(ConfigError(SmallModel().Write().U32("llama.vocab_size", 81).Finish()),
              HasSubstr("'llama.vocab_size': 81 differs from the embedding's 80 rows"));
  EXPECT_THAT(ConfigError(GgufWriter().String("general.architecture", "llama").Finish()),
              HasSubstr("key 'llama.block_count': missing"));
}

// Tensors of the small model with one change: `skip` is left out, or `add` is put in beside.
TEST(WeightPlanTest, RefusesMissingMisshapenAndUnknownTensors) {
  EXPECT_EQ(PlanError(SmallModel().Write().Finish()), "no error");
  SmallModel more;
  more.layers = 3;
  // A file of three layers that says two, and one of two that says three.
  std::string bytes = more.Write().Finish();
  const std::string key = "llama.block_count";
  bytes[bytes.find(key) + key.size() + 4] = 2;
  EXPECT_THAT(PlanError(bytes), HasSubstr("tensor 'blk.2.attn_norm.weight' is not one that"));
  bytes = SmallModel().Write().Finish();
  bytes[bytes.find(key) + key.size() + 4] = 3;
  EXPECT_THAT(PlanError(bytes), HasSubstr("tensor 'blk.2.attn_norm.weight' is missing"));
  // A width that the tensors don't have.
  const std::string ffn = "llama.feed_forward_length";
  bytes = SmallModel().Write().Finish();
  bytes[bytes.find(ffn) + ffn.size() + 4] = 64;
  EXPECT_THAT(PlanError(bytes), HasSubstr("tensor 'blk.0.ffn_gate.weight' at byte"));
  EXPECT_THAT(PlanError(bytes), HasSubstr("has shape [64, 96], expected [64, 64]"));
  EXPECT_THAT(PlanError(SmallModel()
                            .Write()
                            .Tensor("blk.0.attn_q.bias", {64}, 0, std::string(256, '\0'))
                            .Finish()),
              HasSubstr("tensor 'blk.0.attn_q.bias' is not one that architecture 'llama'"));
}

TEST(WeightPlanTest, LoadsIntoTheBytesItSaid) {
  SmallModel model;
  model.value_type = 1, model.tied = false;
  const std::string bytes = model.Write().Finish();
  const auto file = Parse(bytes);
  const auto config = ModelConfigFromGguf(*file);
  const auto plan = WeightPlan::Create(*file, *config);
  ASSERT_TRUE(plan.ok()) << Message(plan.status());
  const auto backend = kernels::CreateReferenceBackend({});
  std::vector<double> fractions;
  const auto weights = plan->Load(*backend, [&](double f) { fractions.push_back(f); });
  ASSERT_TRUE(weights.ok()) << Message(weights.status());
  EXPECT_EQ((*weights)->memory.bytes(), plan->Bytes(*backend));
  EXPECT_TRUE(std::is_sorted(fractions.begin(), fractions.end()));
  EXPECT_EQ(fractions.back(), 1.0);
  // q and k together, v in another format by itself.
  const StackedWeight& qkv = (*weights)->layers[0].qkv;
  ASSERT_EQ(qkv.parts.size(), 2u);
  EXPECT_EQ(qkv.parts[0].weight.rows, 96);
  EXPECT_EQ(qkv.parts[1].weight.rows, 32);
  EXPECT_EQ(qkv.parts[1].column, 96);
  EXPECT_EQ(plan->DescribeFormats(), "F16 x2, Q8_0 x14");
  EXPECT_TRUE(plan->Uses(*backend, kernels::ActivationFormat::kF32));
  EXPECT_TRUE(plan->Uses(*backend, kernels::ActivationFormat::kQ8));
}

}  // namespace
}  // namespace sluice::engine
