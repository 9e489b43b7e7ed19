// The decoder on small made-up models, against the same architecture written down densely in
// double: every variation that a model file can state, on every backend.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/engine/model/dense_model.h"
#include "tests/engine/model/forced_run.h"
#include "tests/support/model_worker.h"
#include "tests/support/small_model.h"

namespace sluice::testing {
namespace {

struct Variation {
  std::string name;
  SmallModel model;
};

std::vector<Variation> Variations() {
  const auto with = [](auto change) {
    SmallModel model;
    change(model);
    return model;
  };
  return {
      {"plain", SmallModel()},
      {"untied", with([](SmallModel& m) { m.tied = false; })},
      {"float32", with([](SmallModel& m) { m.matrix_type = m.value_type = 0; })},
      {"float16", with([](SmallModel& m) { m.matrix_type = m.value_type = 1; })},
      {"value_apart", with([](SmallModel& m) { m.value_type = 0; })},
      {"linear_rope", with([](SmallModel& m) { m.rope_scaling = "linear", m.rope_factor = 4; })},
      {"rope_freqs", with([](SmallModel& m) { m.rope_freqs = {1, 1, 2, 2, 4, 8, 8, 8}; })},
      {"attention_scale", with([](SmallModel& m) { m.attention_scale = 0.5f; })},
      {"one_kv_head", with([](SmallModel& m) { m.kv_heads = 1; })},
      {"equal_heads", with([](SmallModel& m) { m.kv_heads = 4; })},
      {"wide_heads", with([](SmallModel& m) {
         m.head_dim = 24;
         m.matrix_type = m.value_type = 0;
       })},
  };
}

std::vector<int32_t> SomeTokens(size_t n) {
  std::vector<int32_t> tokens(n);
  for (size_t i = 0; i < n; ++i) tokens[i] = static_cast<int32_t>((i * 37 + i * i * 5 + 11) % 80);
  return tokens;
}

TEST(DecoderTest, MatchesTheDenseModelInFloat32) {
  const std::vector<int32_t> tokens = SomeTokens(37);
  const std::string path = ::testing::TempDir() + "decoder_test_" + std::to_string(getpid());
  for (const Variation& variation : Variations()) {
    const auto expected = DenseLogits(variation.model, tokens);
    variation.model.Write().WriteTo(path);
    for (const std::string& backend : BackendNames()) {
      SCOPED_TRACE(variation.name + " on " + backend);
      WorkerSetup setup;
      setup.backend = backend;
      setup.limits = {2, 16, 8, 16, 128, 0};
      const auto worker = LoadWorker(path, setup);
      size_t seen = 0;
      double largest = 0;
      ForcedRun(*worker, tokens, 0, [&](size_t position, std::span<const float> logits) {
        ASSERT_EQ(position, seen++);
        ASSERT_EQ(logits.size(), 80u);
        for (size_t v = 0; v < logits.size(); ++v) {
          largest = std::max(largest, std::abs(logits[v] - expected[position][v]));
        }
      });
      EXPECT_EQ(seen, tokens.size());
      EXPECT_LT(largest, 2e-4);
    }
  }
  unlink(path.c_str());
}

// int8 activations and f16 keys and values err, but by far less than the logits vary; also where
// parts of one product want their input in different formats.
TEST(DecoderTest, StaysNearTheDenseModelWithInt8Activations) {
  const std::vector<int32_t> tokens = SomeTokens(37);
  const std::string path = ::testing::TempDir() + "decoder_test8_" + std::to_string(getpid());
  for (const Variation& variation : Variations()) {
    const auto expected = DenseLogits(variation.model, tokens);
    variation.model.Write().WriteTo(path);
    for (const std::string& backend : BackendNames()) {
      SCOPED_TRACE(variation.name + " on " + backend);
      WorkerSetup setup;
      setup.backend = backend;
      setup.activations = kernels::ActivationMode::kInt8;
      setup.kv_dtype = kernels::DType::kF16;
      setup.limits = {2, 16, 8, 16, 128, 0};
      const auto worker = LoadWorker(path, setup);
      double errors = 0, squares = 0;
      ForcedRun(*worker, tokens, 0, [&](size_t position, std::span<const float> logits) {
        for (size_t v = 0; v < logits.size(); ++v) {
          errors += std::pow(logits[v] - expected[position][v], 2);
          squares += std::pow(expected[position][v], 2);
        }
      });
      EXPECT_LT(std::sqrt(errors / squares), 0.02);
    }
  }
  unlink(path.c_str());
}

}  // namespace
}  // namespace sluice::testing
