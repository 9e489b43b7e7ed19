// On the real model: answers have the same bits whether what is computed is shared or not, in any
// chunks, with one or two steps in flight, and after preemptions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <random>

#include "engine/exec/executor.h"
#include "engine/scheduler/scheduler.h"
#include "tests/support/model_worker.h"
#include "tests/support/test_paths.h"
#include "tests/support/test_scale.h"

namespace sluice::testing {
namespace {

using engine::Clock;
using engine::GenerateRequest;

struct Setting {
  const char* name;
  bool share_prefixes = true;
  int32_t running_max = 8;
  int32_t step_tokens = 256;
  int32_t kv_blocks = 200;
  int32_t depth = 1;
};
const Setting kSettings[] = {
    {"alone, nothing shared", false, 1},
    {"nothing shared", false},
    {"shared", true},
    {"shared, one at a time", true, 1},
    {"shared, budget 24", true, 8, 24},
    {"shared, two steps in flight", true, 8, 256, 200, 2},
    {"shared, preempted, two steps in flight", true, 8, 64, 13, 2},
};

// Requests that begin with one of two texts, leave it anywhere in a block, and repeat.
std::vector<std::shared_ptr<const GenerateRequest>> Requests(int32_t count) {
  std::mt19937_64 random(11);
  std::vector<std::vector<int32_t>> texts(2);
  for (auto& text : texts)
    for (int32_t i = 0; i < 120; ++i) text.push_back(static_cast<int32_t>(random() % 40'000));
  std::vector<std::shared_ptr<const GenerateRequest>> requests;
  for (int32_t i = 0; i < count; ++i) {
    auto request = std::make_shared<GenerateRequest>();
    request->prompt = texts[static_cast<size_t>(i) % 2];
    request->prompt.resize(i % 5 == 0 ? 112 : 40 + random() % 80);
    for (uint64_t own = i % 5 == 0 ? 0 : random() % 20; own > 0; --own)
      request->prompt.push_back(static_cast<int32_t>(random() % 40'000));
    request->sampling.temperature = i % 2 == 0 ? 0.0f : 0.8f;
    request->sampling.seed = random();
    if (i % 3 == 1) request->sampling.repetition_penalty = 1.2f;
    request->stop.max_tokens = 4 + static_cast<int32_t>(random() % (i % 3 == 0 ? 60 : 20));
    request->n = i % 4 == 3 ? 2 : 1;
    requests.push_back(std::move(request));
  }
  return requests;
}

struct Outcome {
  std::map<uint64_t, std::vector<int32_t>> answers;
  engine::EngineStats stats;
};

Outcome Generate(const Setting& setting,
                 const std::vector<std::shared_ptr<const GenerateRequest>>& requests) {
  WorkerSetup setup;
  setup.activations = kernels::ActivationMode::kInt8;
  setup.kv_dtype = kernels::DType::kF16;
  setup.limits = {8, 256, setting.kv_blocks, 16, 256, 0};
  engine::WorkerExecutor executor(LoadWorker(DefaultModelPath(), setup));
  engine::Scheduler::Options options;
  options.running_max = setting.running_max;
  options.step_tokens = setting.step_tokens;
  options.share_prefixes = setting.share_prefixes;
  engine::Scheduler scheduler(executor.limits(), options);
  uint64_t id = 0;
  for (const auto& request : requests)
    for (int32_t choice = 0; choice < request->n; ++choice) scheduler.Add(++id, request, choice);
  Outcome run;
  std::vector<engine::SequenceEvent> events;
  while (scheduler.has_sequences() || scheduler.steps_in_flight() > 0) {
    while (scheduler.steps_in_flight() < setting.depth) {
      engine::StepPlan plan = scheduler.Plan(Clock::now());
      if (plan.empty()) break;
      executor.Submit(std::move(plan));
    }
    if (scheduler.steps_in_flight() == 0) break;
    const auto result = executor.Collect();
    EXPECT_TRUE(result.ok());
    if (!result.ok()) return run;
    EXPECT_TRUE(scheduler.Commit(*result, Clock::now(), &events).ok());
    EXPECT_TRUE(scheduler.CheckIntegrity().ok()) << scheduler.CheckIntegrity();
  }
  for (const auto& event : events)
    if (event.token >= 0) run.answers[event.id].push_back(event.token);
  run.stats = scheduler.stats();
  return run;
}

TEST(ReuseIdentityTest, SharingChangesNoBit) {
  const auto requests = Requests(std::max(12, Scaled(24)));  // fewer would share too little
  Outcome expected;
  for (const Setting& setting : kSettings) {
    const Outcome run = Generate(setting, requests);
    std::printf("%s: %lld of %lld prompt tokens shared, %lld preemptions, %lld steps\n",
                setting.name, static_cast<long long>(run.stats.prefix_hit_tokens),
                static_cast<long long>(run.stats.prefix_query_tokens),
                static_cast<long long>(run.stats.preemptions),
                static_cast<long long>(run.stats.steps));
    std::fflush(stdout);
    if (expected.answers.empty()) expected = run;
    EXPECT_EQ(run.answers, expected.answers) << setting.name;
    if (setting.share_prefixes) {
      EXPECT_GT(run.stats.prefix_hit_tokens, run.stats.prefix_query_tokens / 4);
    }
    if (setting.kv_blocks < 100) {
      EXPECT_GT(run.stats.preemptions, 0);
    }
    EXPECT_EQ(run.stats.kv_blocks_used, 0);
  }
}

}  // namespace
}  // namespace sluice::testing
