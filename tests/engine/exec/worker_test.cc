// The worker on a small made-up model: slots, block tables, sampling and what it refuses; and the
// executor's hand-over between threads.

#include "engine/exec/worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <future>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/exec/executor.h"
#include "engine/model/gguf.h"
#include "tests/engine/exec/bit_identity.h"
#include "tests/engine/exec/plan_builder.h"
#include "tests/support/model_worker.h"
#include "tests/support/small_model.h"
#include "tests/support/test_scale.h"

namespace sluice::testing {
namespace {

using engine::SliceOutput;
using engine::SliceStatus;
using ::testing::ElementsAre;

constexpr engine::ExecutorLimits kLimits{4, 24, 16, 16, 64, 0};

engine::SamplingParams Greedy() {
  engine::SamplingParams params;
  params.temperature = 0;
  return params;
}

std::unique_ptr<engine::Worker> MakeWorker(const SmallModel& model = {},
                                           const std::string& backend = BestBackend(),
                                           engine::ExecutorLimits limits = kLimits) {
  const std::string path = ::testing::TempDir() + "worker_test_" + std::to_string(getpid());
  model.Write().WriteTo(path);
  WorkerSetup setup;
  setup.backend = backend;
  setup.limits = limits;
  auto worker = LoadWorker(path, setup);
  unlink(path.c_str());
  return worker;
}

std::vector<int32_t> TokensOf(const engine::StepResult& result) {
  std::vector<int32_t> tokens;
  for (const engine::SliceResult& slice : result.slices) tokens.push_back(slice.token);
  return tokens;
}

TEST(WorkerTest, TakesTheVocabularyFromTheModel) {
  EXPECT_EQ(MakeWorker()->limits().vocabulary, 80);
  EXPECT_EQ(MakeWorker()->limits().slots, 4);
}

TEST(WorkerTest, APlanWithoutSlicesHasNoResults) {
  const auto worker = MakeWorker();
  PlanBuilder plan(kLimits);
  const engine::StepResult result = worker->Run(plan.Start(0, Greedy(), 0, 8).Take());
  EXPECT_EQ(result.step, 1u);
  EXPECT_TRUE(result.slices.empty());
}

TEST(WorkerTest, ResultsAreInThePlansOrderAndOnlyOfSlicesThatSample) {
  const auto worker = MakeWorker();
  PlanBuilder plan(kLimits);
  const std::vector<int32_t> a{5, 6, 7}, b{9}, c{11, 12};
  for (const int32_t slot : {0, 1, 3}) plan.Start(slot, Greedy(), slot * 4, 32);
  plan.Slice(3, 0, a, SliceOutput::kSample).Slice(0, 0, b, SliceOutput::kNone);
  plan.Slice(1, 0, c, SliceOutput::kSample);
  const engine::StepResult result = worker->Run(plan.Take());
  ASSERT_EQ(result.slices.size(), 2u);
  EXPECT_EQ(result.slices[0].slot, 3);
  EXPECT_EQ(result.slices[1].slot, 1);
  EXPECT_EQ(result.slices[0].status, SliceStatus::kOk);
  EXPECT_GT(result.seconds, 0);
}

// What the planner has not seen yet is fed as well as what it has.
TEST(WorkerTest, TheLastSampledTokenIsTheOneSampledLast) {
  const auto worker = MakeWorker();
  PlanBuilder plan(kLimits);
  const std::vector<int32_t> prompt{5, 6, 7};
  plan.Start(0, Greedy(), 0, 32).Start(1, Greedy(), 4, 32);
  plan.Slice(0, 0, prompt, SliceOutput::kSample).Slice(1, 0, prompt, SliceOutput::kSample);
  std::vector<int32_t> last = TokensOf(worker->Run(plan.Take()));
  EXPECT_EQ(last[0], last[1]);
  for (int32_t i = 1; i < 8; ++i) {
    const int32_t position = 2 + i;
    plan.Next(0, position, i).Slice(1, position, std::span(&last[1], 1), SliceOutput::kSample, i);
    last = TokensOf(worker->Run(plan.Take()));
    EXPECT_EQ(last[0], last[1]) << i;
  }
}

// A slot's blocks may lie anywhere and in any order, grow step by step, and be another's next.
TEST(WorkerTest, BlocksMayLieAnywhere) {
  const auto worker = MakeWorker();
  const std::vector<Generation> generations{{{5, 6, 7, 8}, Greedy(), 40}};
  const auto expected = Generate(*worker, generations, {1})[0];

  std::vector<int32_t> answer;
  PlanBuilder plan(kLimits);
  engine::StepPlan step = plan.Start(2, Greedy(), 13, 16)
                              .Slice(2, 0, generations[0].prompt, SliceOutput::kSample)
                              .Take();
  const int32_t more[] = {3, 9};
  size_t used = 0;
  while (true) {
    answer.push_back(TokensOf(worker->Run(step)).at(0));
    if (answer.size() == 40) break;
    const auto generated = static_cast<int32_t>(answer.size());
    const int32_t position = 3 + generated;
    step = plan.Next(2, position, generated).Take();
    if (position % 16 == 0) {
      step.blocks = {more[used++]};
      step.appends = {{2, 0, 1}};
    }
  }
  EXPECT_EQ(answer, expected);
}

TEST(WorkerTest, AReleasedSlotStartsFromNothing) {
  const auto worker = MakeWorker();
  const std::vector<Generation> one{{{5, 6, 7, 8}, Greedy(), 10}};
  const auto expected = Generate(*worker, one, {1});
  const std::vector<Generation> other{{{40, 41}, Greedy(), 20}};
  Generate(*worker, other, {1});
  EXPECT_EQ(Generate(*worker, one, {1}), expected);
}

TEST(WorkerTest, WarmUpLeavesNothingBehind) {
  const std::vector<Generation> one{{{5, 6, 7, 8}, Greedy(), 10}};
  for (const std::string& backend : BackendNames()) {
    const auto cold = MakeWorker({}, backend), warm = MakeWorker({}, backend);
    warm->WarmUp();
    EXPECT_EQ(Generate(*warm, one, {1}), Generate(*cold, one, {1})) << backend;
  }
  // Also where there is hardly room for one context, and where a slot is all there is.
  MakeWorker({}, BestBackend(), {4, 24, 4, 16, 64, 0})->WarmUp();
  MakeWorker({}, BestBackend(), {1, 1, 1, 16, 16, 0})->WarmUp();
  MakeWorker({}, BestBackend(), {3, 100, 16, 16, 17, 0})->WarmUp();
}

// Token 7 has a NaN in its embedding: whoever reads it has no answer, and nobody else notices.
void ExpectOneSpoiltSequence(const std::string& path, const WorkerSetup& setup) {
  const auto worker = LoadWorker(path, setup);
  const std::vector<int32_t> good{5, 6}, bad{5, 7};
  PlanBuilder plan(kLimits);
  plan.Start(0, Greedy(), 0, 8).Slice(0, 0, good, SliceOutput::kSample);
  const auto alone = TokensOf(worker->Run(plan.Take()));
  plan.Release(0).Start(1, Greedy(), 2, 8).Start(2, Greedy(), 4, 8);
  plan.Slice(1, 0, bad, SliceOutput::kSample).Slice(2, 0, good, SliceOutput::kSample);
  const engine::StepResult result = worker->Run(plan.Take());
  EXPECT_EQ(result.slices[0].status, SliceStatus::kNonFinite);
  EXPECT_EQ(result.slices[0].token, -1);
  EXPECT_EQ(result.slices[1].status, SliceStatus::kOk);
  EXPECT_EQ(result.slices[1].token, alone[0]);
  // The block in which the NaN lies is another's next.
  plan.Release(1).Release(2).Start(0, Greedy(), 2, 8).Slice(0, 0, good, SliceOutput::kSample);
  EXPECT_EQ(TokensOf(worker->Run(plan.Take())), alone);
}

TEST(WorkerTest, ANotFiniteRowEndsItsOwnSequenceAlone) {
  const std::string path = ::testing::TempDir() + "worker_nan_" + std::to_string(getpid());
  for (const uint32_t type : {0u, 8u}) {  // F32 and Q8_0: rounding to integers must not hide it
    SmallModel model;
    model.matrix_type = model.value_type = type;
    model.tied = false;
    std::string bytes = model.Write().Finish();
    const auto file =
        engine::GgufFile::Parse(std::as_bytes(std::span(bytes.data(), bytes.size())), "nan.gguf");
    ASSERT_TRUE(file.ok());
    const engine::GgufTensor& table = *(*file)->FindTensor("token_embd.weight");
    const auto row = static_cast<uint64_t>(7 * table.bytes / table.rows());
    if (type == 0) {
      const float nan = std::numeric_limits<float>::quiet_NaN();
      std::memcpy(bytes.data() + table.offset + row, &nan, sizeof nan);
    } else {
      const uint16_t nan = 0x7E00;  // the first block's scale
      std::memcpy(bytes.data() + table.offset + row, &nan, sizeof nan);
    }
    std::ofstream(path, std::ios::binary) << bytes;
    for (const std::string& backend : BackendNames()) {
      for (const auto mode : {kernels::ActivationMode::kF32, kernels::ActivationMode::kInt8}) {
        for (const auto kv : {kernels::DType::kF32, kernels::DType::kF16}) {
          SCOPED_TRACE(backend + (type == 0 ? ", F32" : ", Q8_0") +
                       (mode == kernels::ActivationMode::kInt8 ? ", int8" : "") +
                       (kv == kernels::DType::kF16 ? ", f16 cache" : ""));
          WorkerSetup setup;
          setup.backend = backend;
          setup.activations = mode;
          setup.kv_dtype = kv;
          setup.limits = kLimits;
          ExpectOneSpoiltSequence(path, setup);
        }
      }
    }
  }
  unlink(path.c_str());
}

TEST(WorkerTest, ManySchedulesGiveOneAnswer) {
  std::vector<Generation> generations;
  for (int32_t i = 0; i < 12; ++i) {
    Generation g;
    for (int32_t t = 0; t <= i * 2; ++t) g.prompt.push_back((i * 31 + t * 7) % 80);
    g.tokens = 5 + i;
    g.sampling.temperature = i % 3 == 0 ? 0.0f : 0.8f;
    g.sampling.seed = static_cast<uint64_t>(i);
    if (i % 4 == 1) g.sampling.presence_penalty = 1;
    if (i % 4 == 2) g.sampling.min_tokens = 9, g.sampling.end_ids = {2, 3};
    generations.push_back(g);
  }
  for (const std::string& backend : BackendNames()) {
    const auto worker = MakeWorker({}, backend);
    const auto expected = Generate(*worker, generations, {1});
    for (const Schedule& schedule :
         {Schedule{4}, {4, 3}, {3, 1, 5}, {2, 8, 9, true}, {4, 16, 24, false, 2}}) {
      EXPECT_EQ(Generate(*worker, generations, schedule), expected) << backend;
    }
  }
}

TEST(WorkerDeathTest, PlansThatContradictTheSlotsAreOurBug) {
  const auto worker = MakeWorker({}, "reference");
  const std::vector<int32_t> one{5}, many(25, 5), unknown{80};
  PlanBuilder plan(kLimits);
  worker->Run(plan.Start(0, Greedy(), 0, 16).Take());
  const auto run = [&](PlanBuilder& p) { worker->Run(p.Take()); };
  EXPECT_DEATH(run(plan.Start(0, Greedy(), 0, 16)), "slot 0 is taken");
  plan.Take();
  EXPECT_DEATH(run(plan.Release(1)), "slot 1 is empty");
  plan.Take();
  EXPECT_DEATH(run(plan.Start(1, Greedy(), 16, 16)), "block 16");
  plan.Take();
  EXPECT_DEATH(run(plan.Slice(0, 16, one, SliceOutput::kSample)), "needs room for 17 tokens");
  plan.Take();
  EXPECT_DEATH(run(plan.Slice(0, 0, many, SliceOutput::kSample)), "25 tokens");
  plan.Take();
  EXPECT_DEATH(run(plan.Slice(0, 0, unknown, SliceOutput::kSample)), "token 80 in slot 0");
  plan.Take();
  EXPECT_DEATH(run(plan.Next(0, 0, 0)), "token -1 in slot 0");
}

// Plans handed over at once are run in order, with results in order, while another thread waits.
TEST(ExecutorTest, RunsPlansInOrder) {
  std::vector<Generation> generations{{{5, 6, 7}, Greedy(), 20}};
  const auto expected = Generate(*MakeWorker(), generations, {1})[0];
  engine::WorkerExecutor executor(MakeWorker());
  EXPECT_EQ(executor.limits().slots, kLimits.slots);
  for (int round = 0; round < Scaled(20); ++round) {
    PlanBuilder plan(kLimits);
    plan.Start(0, Greedy(), 0, 32).Slice(0, 0, generations[0].prompt, SliceOutput::kSample);
    executor.Submit(plan.Take());
    std::vector<int32_t> answer;
    // Two plans ahead: each feeds what the one before it samples.
    for (int32_t i = 1; i < 20; ++i) {
      executor.Submit(plan.Next(0, 2 + i, i).Take());
      const auto result = executor.Collect();
      ASSERT_TRUE(result.ok());
      EXPECT_EQ(result->step, static_cast<uint64_t>(i));
      answer.push_back(result->slices.at(0).token);
    }
    executor.Submit(plan.Release(0).Take());
    answer.push_back(executor.Collect()->slices.at(0).token);
    EXPECT_TRUE(executor.Collect()->slices.empty());
    EXPECT_EQ(answer, expected);
  }
}

TEST(ExecutorTest, EndsWithPlansUnfinished) {
  for (int round = 0; round < Scaled(20); ++round) {
    engine::WorkerExecutor executor(MakeWorker());
    PlanBuilder plan(kLimits);
    const std::vector<int32_t> prompt{5, 6, 7};
    executor.Submit(
        plan.Start(0, Greedy(), 0, 32).Slice(0, 0, prompt, SliceOutput::kSample).Take());
    for (int32_t i = 1; i < 5; ++i) executor.Submit(plan.Next(0, 2 + i, i).Take());
    if (round % 2 == 0) {
      ASSERT_TRUE(executor.Collect().ok());
    }
  }
}

// A device that does not answer is an error in bounded time, and the executor can be ended.
TEST(ExecutorTest, AStepThatDoesNotEndIsLost) {
  std::promise<void> gate;
  std::weak_ptr<int> held;
  {
    auto worker = MakeWorker();
    auto token = std::make_shared<int>(0);  // dies with the worker
    held = token;
    worker->SetProbe({false, [token, opened = gate.get_future().share()](
                                 const engine::StepPlan&, std::span<const int32_t>, const float*) {
                        opened.wait();
                      }});
    token.reset();
    engine::WorkerExecutor executor(std::move(worker), std::chrono::milliseconds(30));
    PlanBuilder plan(kLimits);
    const std::vector<int32_t> prompt{5, 6, 7};
    executor.Submit(
        plan.Start(0, Greedy(), 0, 32).Slice(0, 0, prompt, SliceOutput::kSample).Take());
    for (int i = 0; i < 2; ++i) {
      const auto result = executor.Collect();
      ASSERT_FALSE(result.ok());
      EXPECT_NE(engine::Message(result.status()).find("within 30 ms"), std::string::npos);
    }
  }
  gate.set_value();
  while (!held.expired()) std::this_thread::yield();
}

}  // namespace
}  // namespace sluice::testing
