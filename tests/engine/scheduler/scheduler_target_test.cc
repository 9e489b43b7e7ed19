// The model of step times, and steps that keep to a time between tokens.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "engine/scheduler/step_cost.h"
#include "engine/scheduler/step_margin.h"
#include "tests/engine/scheduler/scheduler_rig.h"

namespace sluice::testing {
namespace {

using engine::GenerateRequest;
using engine::Scheduler;
using engine::StepCostModel;
using engine::StepMargin;
using engine::StepWork;

StepWork RandomWork(std::mt19937_64* random) {
  StepWork work;
  work.sequences = 1 + static_cast<int32_t>((*random)() % 32);
  work.tokens = work.sequences + static_cast<int32_t>((*random)() % 250);
  work.attended = static_cast<double>(work.tokens) * static_cast<double>((*random)() % 2000);
  work.context = static_cast<double>(work.sequences) * static_cast<double>((*random)() % 2000);
  return work;
}

double Truth(const StepWork& work) {
  return 2e-3 + 1e-3 * work.tokens + 2e-8 * work.attended + 5e-5 * work.sequences +
         1e-6 * work.context;
}

TEST(StepCostModelTest, LearnsALinearCost) {
  std::mt19937_64 random(1);
  StepCostModel model;
  EXPECT_FALSE(model.ready());
  for (int i = 0; i < 300; ++i) {
    const StepWork work = RandomWork(&random);
    model.Observe(work, Truth(work));
  }
  ASSERT_TRUE(model.ready());
  for (int i = 0; i < 50; ++i) {
    const StepWork work = RandomWork(&random);
    EXPECT_NEAR(model.Predict(work) / Truth(work), 1, 0.02);
  }
  EXPECT_LT(model.relative_error(), 0.02);
}

TEST(StepCostModelTest, StallsTeachItLittleAndChangesAreFollowed) {
  std::mt19937_64 random(2);
  StepCostModel model;
  for (int i = 0; i < 1000; ++i) {
    const StepWork work = RandomWork(&random);
    model.Observe(work, Truth(work) * (i % 50 == 49 ? 20 : 0.97 + 0.06 * (i % 2)));
  }
  double error = 0;
  for (int i = 0; i < 100; ++i) {
    const StepWork work = RandomWork(&random);
    error += std::abs(model.Predict(work) / Truth(work) - 1) / 100;
  }
  EXPECT_LT(error, 0.1) << "one step in 50 took twenty times as long";
  for (int i = 0; i < 3000; ++i) {
    const StepWork work = RandomWork(&random);
    model.Observe(work, 2 * Truth(work));
  }
  const StepWork work{8, 100, 50'000};
  EXPECT_NEAR(model.Predict(work) / Truth(work), 2, 0.2) << "the machine became half as fast";
}

// A host that moves its processors makes all steps slower, whatever they compute, and soon faster.
TEST(StepCostModelTest, FollowsAPaceThatChanges) {
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal;
  StepCostModel model;
  double sum = 0;
  int counted = 0;
  for (int i = 0; i < 4000; ++i) {
    const double pace = i / 250 % 2 == 0 ? 1.0 : 1.3;
    const StepWork work = RandomWork(&random);
    const double expected = pace * Truth(work);
    if (i > 500 && i % 250 >= 60) {
      sum += std::abs(model.Predict(work) / expected - 1);
      ++counted;
    }
    model.Observe(work, expected * std::max(0.5, 1 + 0.03 * normal(random)));
  }
  EXPECT_LT(sum / counted, 0.03);
}

TEST(StepCostModelTest, SurvivesSenselessTimes) {
  StepCostModel model;
  const StepWork work{1, 1, 1};
  for (const double seconds : {0.0, -1.0, 1e308, std::nan(""), 1e-12}) model.Observe(work, seconds);
  for (int i = 0; i < 2000; ++i) model.Observe(work, 1e-3);
  EXPECT_NEAR(model.Predict(work), 1e-3, 1e-4);
}

struct LoadResult {
  double longest_step = 0;    // of those with decodes, once the model has learnt
  std::vector<double> steps;  // those, ascending
  int32_t long_prompts = 0;
  double seconds = 0;
};

// Eight sequences decode while long prompts come one after another.
LoadResult MixedLoad(double target, std::function<double(uint64_t)> slowness = nullptr,
                     int32_t steps = 600) {
  SimulatedWorker::Options worker;
  worker.limits = {16, 256, 4000, 16, 4000, 5000};
  worker.step_seconds = 2e-3;
  worker.token_seconds = 1e-3;
  worker.slowness = std::move(slowness);
  Scheduler::Options options;
  options.running_max = 16;
  options.step_tokens = 256;
  options.inter_token_target = target;
  SchedulerRig rig(worker, options);
  std::mt19937_64 random(3);
  const auto add = [&](int32_t prompt, int32_t max_tokens) {
    auto request = std::make_shared<GenerateRequest>();
    for (int32_t i = 0; i < prompt; ++i)
      request->prompt.push_back(static_cast<int32_t>(10 + random() % 4900));
    request->sampling.temperature = 0;
    request->stop.max_tokens = max_tokens;
    request->stop.ignore_eos = true;
    return rig.Add(request);
  };
  for (int i = 0; i < 8; ++i) add(20, steps + 1000);
  LoadResult result;
  uint64_t longer = 0;
  double last = 0;
  for (int32_t step = 0; step < steps; ++step) {
    if (longer == 0 || !rig[longer].tokens.empty()) {
      if (longer != 0) ++result.long_prompts;
      longer = add(1000, 2);
    }
    EXPECT_TRUE(rig.Plan());
    rig.Commit();
    const double now = rig.worker().virtual_seconds();
    if (step > steps / 10) result.steps.push_back(now - last);
    last = now;
  }
  std::sort(result.steps.begin(), result.steps.end());
  result.longest_step = result.steps.back();
  result.seconds = last;
  return result;
}

TEST(SchedulerTargetTest, StepsKeepToTheTimeBetweenTokens) {
  const LoadResult free = MixedLoad(0);
  EXPECT_GT(free.longest_step, 0.2) << "without a target a step takes all of its budget";
  for (const double target : {0.03, 0.05, 0.1}) {
    const LoadResult held = MixedLoad(target);
    EXPECT_LE(held.longest_step, target * 1.15) << target;
    EXPECT_GE(held.longest_step, target * 0.8) << target << ": the time there is is used";
    EXPECT_GT(held.long_prompts, 0) << target;
  }
}

// A target is for nearly all steps: what steps scatter by is kept free, up to a part of it.
TEST(SchedulerTargetTest, StepsThatScatterKeepToItToo) {
  const auto scattered = [](double by) {
    return [by](uint64_t step) { return step % 2 == 0 ? 1 + by : 1 - by; };
  };
  const LoadResult little = MixedLoad(0.05, scattered(0.05));
  EXPECT_LE(little.longest_step, 0.05 * 1.02);
  EXPECT_GE(little.longest_step, 0.05 * 0.85) << "no more than that is kept free";
  const LoadResult much = MixedLoad(0.05, scattered(0.4));
  EXPECT_GE(much.longest_step, 0.05 * (1 - StepMargin::kMost) * 1.4 * 0.9)
      << "a part of the target at most";
  EXPECT_GT(much.long_prompts, 0);
}

// How much is spared follows from how steps scatter: as many are late with all kinds of it.
TEST(SchedulerTargetTest, AsManyStepsAreLateHoweverTheyScatter) {
  const double target = 0.05;
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  std::exponential_distribution<double> exponential;
  const std::vector<std::pair<const char*, std::function<double(uint64_t)>>> kinds = {
      {"normal", [&](uint64_t) { return std::max(0.5, 1 + 0.08 * normal(random)); }},
      {"one side", [&](uint64_t) { return 1 + 0.06 * exponential(random); }},
      {"a few much slower", [&](uint64_t) { return random() % 12 == 0 ? 1.25 : 1.0; }}};
  for (const auto& [name, slowness] : kinds) {
    const LoadResult held = MixedLoad(target, slowness, 3000);
    const auto late =
        held.steps.end() - std::upper_bound(held.steps.begin(), held.steps.end(), 1.001 * target);
    const double share = static_cast<double>(late) / static_cast<double>(held.steps.size());
    EXPECT_LE(share, 2 * StepMargin::kLateShare) << name;
    EXPECT_GE(share, StepMargin::kLateShare / 4) << name << ": more than needed is kept free";
    EXPECT_LE(held.steps[held.steps.size() * 99 / 100], 1.1 * target) << name;
  }
}

// The margin forgets: a host that was busy for a while does not slow prompts down for good.
TEST(SchedulerTargetTest, TheMarginFollowsWhenStepsScatterLess) {
  std::mt19937_64 random(11);
  std::normal_distribution<double> normal;
  const auto calmer = [&](uint64_t step) {
    return std::max(0.5, 1 + (step < 500 ? 0.12 : 0.01) * normal(random));
  };
  const LoadResult held = MixedLoad(0.05, calmer, 3500);
  EXPECT_GE(held.steps[held.steps.size() / 2], 0.9 * 0.05);
}

TEST(SchedulerTargetTest, APromptGetsOnUnderATargetThatCannotBeKept) {
  const LoadResult held = MixedLoad(1e-4);
  EXPECT_GE(held.long_prompts, 600 * 4 / 1000 - 1) << "4 tokens a step at least";
}

}  // namespace
}  // namespace sluice::testing
