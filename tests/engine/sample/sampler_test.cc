// What the sampler tells the kernels about its slots, and how it counts what was sampled.

#include "engine/sample/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <span>
#include <vector>

#include "kernels/backend.h"

namespace sluice::engine {
namespace {

using ::testing::ElementsAre;

class SamplerTest : public ::testing::Test {
 protected:
  // The batch for these rows, as the device would read it after the copy.
  kernels::SamplingBatch Prepare(const std::vector<SampleRow>& rows) {
    staging_.Reset(sampler_.StagingBytes(rows));
    const kernels::SamplingBatch batch = sampler_.Prepare(rows, staging_);
    staging_.Send();
    return batch;
  }
  // Greedy choice from rows of equal logits, after the rules.
  std::vector<int32_t> Sample(const std::vector<SampleRow>& rows, std::vector<float> logits) {
    const kernels::SamplingBatch batch = Prepare(rows);
    const auto n = static_cast<int64_t>(rows.size());
    std::vector<int32_t> ids(rows.size());
    const auto view = kernels::Matrix(static_cast<void*>(logits.data()), n, kVocabulary);
    backend_->ops().ApplyLogitRules(view, batch);
    backend_->ops().Sample(kernels::Vector(static_cast<void*>(ids.data()), n, kernels::DType::kI32),
                           view, batch);
    sampler_.Commit(rows, ids);
    return ids;
  }
  static SlotStart Start(int32_t slot, const SamplingParams& params,
                         std::vector<int32_t> history = {}, int32_t prompt_tokens = 0) {
    return {slot, params, std::move(history), prompt_tokens};
  }
  static SamplingParams Greedy() {
    SamplingParams params;
    params.temperature = 0;
    return params;
  }
  template <typename T>
  static std::vector<T> List(const T* data, int32_t begin, int32_t end) {
    return {data + begin, data + end};
  }

  static constexpr int32_t kVocabulary = 8;
  std::unique_ptr<kernels::Backend> backend_ = kernels::CreateReferenceBackend({});
  StagingArea staging_{*backend_};
  Sampler sampler_{4, kVocabulary};
};

TEST_F(SamplerTest, RowsCarryTheirSlotsParameters) {
  SamplingParams a;
  a.temperature = 0.5f, a.top_k = 3, a.top_p = 0.9f, a.min_p = 0.1f, a.seed = 77, a.choice = 2;
  sampler_.Start(Start(2, a));
  sampler_.Start(Start(0, Greedy()));
  const auto batch = Prepare({{2, 5}, {0, 0}});
  EXPECT_EQ(batch.rows, 2);
  EXPECT_THAT(List(batch.temperature, 0, 2), ElementsAre(0.5f, 0.0f));
  EXPECT_THAT(List(batch.top_k, 0, 2), ElementsAre(3, 0));
  EXPECT_THAT(List(batch.top_p, 0, 2), ElementsAre(0.9f, 1.0f));
  EXPECT_THAT(List(batch.min_p, 0, 2), ElementsAre(0.1f, 0.0f));
  EXPECT_THAT(List(batch.seed, 0, 2), ElementsAre(77u, 0u));
  EXPECT_THAT(List(batch.choice, 0, 2), ElementsAre(2u, 0u));
  EXPECT_THAT(List(batch.position, 0, 2), ElementsAre(5u, 0u));
  EXPECT_FALSE(batch.any_rules);
  EXPECT_FALSE(batch.all_greedy);
  EXPECT_TRUE(Prepare({{0, 0}}).all_greedy);
}

TEST_F(SamplerTest, HistoriesHoldEachTokenOnceWithItsGeneratedCount) {
  SamplingParams params = Greedy();
  params.repetition_penalty = 1.5f;
  // Prompt 3 3 5; generated before a preemption: 5 6.
  sampler_.Start(Start(1, params, {3, 3, 5, 5, 6}, 3));
  sampler_.Start(Start(0, Greedy()));
  const std::vector<SampleRow> rows{{0, 0}, {1, 2}};
  sampler_.Commit(rows, std::vector<int32_t>{4, 6});
  const auto batch = Prepare(rows);
  EXPECT_TRUE(batch.any_rules);
  EXPECT_THAT(List(batch.history_begin, 0, 3), ElementsAre(0, 0, 3));
  EXPECT_THAT(List(batch.history_token, 0, 3), ElementsAre(3, 5, 6));
  EXPECT_THAT(List(batch.history_generated, 0, 3), ElementsAre(0, 1, 2));
  EXPECT_THAT(List(batch.bias_begin, 0, 3), ElementsAre(0, 0, 0));
}

TEST_F(SamplerTest, APresencePenaltyTakesEachTokenOnlyOnce) {
  SamplingParams params = Greedy();
  params.presence_penalty = 2;
  sampler_.Start(Start(0, params, {0}, 1));
  std::vector<int32_t> chosen;
  for (int32_t i = 0; i < kVocabulary; ++i) {
    chosen.push_back(Sample({{0, i}}, std::vector<float>(kVocabulary, 1.0f))[0]);
  }
  EXPECT_THAT(chosen, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST_F(SamplerTest, EndTokensAreForbiddenBeforeMinTokens) {
  SamplingParams params = Greedy();
  params.min_tokens = 2;
  params.end_ids = {3, 5};
  // The same token in both: the ban stands, and the bias does not lift it.
  params.logit_bias = {{3, 100.0f}, {1, 0.5f}};
  sampler_.Start(Start(0, params));
  std::vector<float> logits(kVocabulary, 0.0f);
  logits[5] = 9;
  EXPECT_THAT(Sample({{0, 0}}, logits), ElementsAre(1));
  EXPECT_THAT(Sample({{0, 1}}, logits), ElementsAre(1));
  EXPECT_THAT(Sample({{0, 2}}, logits), ElementsAre(3));
  const auto batch = Prepare({{0, 1}});
  EXPECT_THAT(List(batch.bias_begin, 0, 2), ElementsAre(0, 3));
  EXPECT_THAT(List(batch.bias_token, 0, 3), ElementsAre(1, 3, 5));
  EXPECT_EQ(batch.bias_value[1], -INFINITY);
}

TEST_F(SamplerTest, ARowThatIsNotFiniteHasNoTokenAndOthersGoOn) {
  sampler_.Start(Start(0, Greedy()));
  SamplingParams params = Greedy();
  params.frequency_penalty = 1;
  sampler_.Start(Start(1, params, {2}, 1));
  std::vector<float> logits(2 * kVocabulary, 0.0f);
  logits[3] = NAN;
  logits[kVocabulary + 6] = 1;
  EXPECT_THAT(Sample({{0, 0}, {1, 0}}, logits), ElementsAre(-1, 6));
  logits[kVocabulary + 6] = NAN;
  EXPECT_THAT(Sample({{0, 1}, {1, 1}}, logits), ElementsAre(-1, -1));
  EXPECT_THAT(List(Prepare({{1, 2}}).history_token, 0, 2), ElementsAre(2, 6));
}

TEST_F(SamplerTest, ASlotStartsAfresh) {
  SamplingParams params = Greedy();
  params.presence_penalty = 1;
  sampler_.Start(Start(0, params, {1, 2, 3}, 3));
  sampler_.Release(0);
  sampler_.Start(Start(0, params, {4}, 1));
  EXPECT_THAT(List(Prepare({{0, 0}}).history_begin, 0, 2), ElementsAre(0, 1));
}

using SamplerDeathTest = SamplerTest;
TEST_F(SamplerDeathTest, ContradictionsAreOurBug) {
  sampler_.Start(Start(0, Greedy()));
  EXPECT_DEATH(sampler_.Start(Start(0, Greedy())), "slot 0 is taken");
  EXPECT_DEATH(sampler_.Release(1), "slot 1 is empty");
  EXPECT_DEATH(sampler_.Start(Start(4, Greedy())), "slot 4");
  const std::vector<SampleRow> empty{{3, 0}};
  EXPECT_DEATH(Prepare(empty), "slot 3 is empty");
}

TEST(StagingAreaTest, ArraysArriveOnTheDeviceAndRoomGrows) {
  const auto backend = kernels::CreateReferenceBackend({});
  StagingArea staging(*backend);
  for (const size_t n : {size_t{3}, size_t{1000}, size_t{10}}) {
    staging.Reset(StagingArea::BytesFor<int32_t>(n) + StagingArea::BytesFor<float>(n + 1));
    const auto ints = staging.Take<int32_t>(n);
    const auto floats = staging.Take<float>(n + 1);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(floats.device) % 64, 0u);
    for (size_t i = 0; i < n; ++i) ints.host[i] = static_cast<int32_t>(i), floats.host[i] = 2;
    floats.host[n] = 0.5f;
    staging.Send();
    EXPECT_EQ(ints.device[n - 1], static_cast<int32_t>(n - 1));
    EXPECT_EQ(floats.device[n], 0.5f);
    EXPECT_GE(staging.capacity(), n * 8);
  }
}

TEST(StagingAreaDeathTest, TakingMoreThanToldIsOurBug) {
  const auto backend = kernels::CreateReferenceBackend({});
  StagingArea staging(*backend);
  staging.Reset(64);
  staging.Take<int32_t>(16);
  EXPECT_DEATH(staging.Take<int32_t>(1), "more taken than Reset was told of");
}

}  // namespace
}  // namespace sluice::engine
