// What a step computes: order, budget, admission, preemption.
#include "engine/scheduler/scheduler.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "tests/engine/scheduler/scheduler_rig.h"

namespace sluice::testing {
namespace {

using engine::FinishReason;
using engine::Scheduler;
using engine::SliceOutput;
using engine::StepPlan;

// No end token among the few that a hash can give: answers run to max_tokens.
SimulatedWorker::Options Worker(int32_t kv_blocks = 100) {
  return SmallWorker(kv_blocks, 200, kEndId);
}

std::vector<int32_t> Counts(const StepPlan& plan) {
  std::vector<int32_t> counts;
  for (const auto& slice : plan.slices) counts.push_back(slice.count);
  return counts;
}

std::vector<int32_t> Prompt(int32_t size, int32_t first = 1) {
  std::vector<int32_t> prompt(static_cast<size_t>(size), 2);
  prompt[0] = first;
  return prompt;
}

void ExpectAllRight(const SchedulerRig& rig) {
  for (const auto& [id, outcome] : rig.outcomes()) {
    EXPECT_EQ(outcome.tokens, rig.Expected(id)) << "sequence " << id;
    EXPECT_EQ(outcome.ends, 1);
    EXPECT_EQ(outcome.events_after_end, 0);
  }
}

TEST(SchedulerTest, WithoutSequencesThePlanIsEmpty) {
  SchedulerRig rig(Worker(), SmallOptions(4, 16));
  EXPECT_FALSE(rig.Plan());
  EXPECT_EQ(rig.scheduler().stats().steps, 0);
}

TEST(SchedulerTest, ALongPromptIsComputedInChunksOfTheBudget) {
  SchedulerRig rig(Worker(), SmallOptions(4, 4));
  const uint64_t id = rig.Add(Prompt(10), 2);
  const std::vector<int32_t> chunks = {4, 4, 2, 1};
  for (size_t i = 0; i < chunks.size(); ++i) {
    ASSERT_TRUE(rig.Plan());
    const StepPlan& plan = rig.last_plan();
    ASSERT_EQ(Counts(plan), std::vector<int32_t>{chunks[i]});
    EXPECT_EQ(plan.slices[0].output, i < 2 ? SliceOutput::kNone : SliceOutput::kSample);
    EXPECT_EQ(plan.starts.size(), i == 0 ? 1u : 0u);
    rig.Commit();
    ASSERT_EQ(rig.Check(), "");
  }
  EXPECT_EQ(rig[id].finish, FinishReason::kLength);
  EXPECT_EQ(rig.scheduler().stats().prompt_tokens, 10);
  EXPECT_EQ(rig.scheduler().stats().generation_tokens, 2);
  ExpectAllRight(rig);
}

TEST(SchedulerTest, DecodesComeBeforePrefillsAndTheRestOfTheBudgetIsShared) {
  SchedulerRig rig(Worker(), SmallOptions(4, 8));
  rig.Add(Prompt(3), 10);
  ASSERT_TRUE(rig.Plan());
  rig.Commit();
  rig.Add(Prompt(9, 2), 10);
  rig.Add(Prompt(5, 3), 10);
  ASSERT_TRUE(rig.Plan());
  EXPECT_EQ(Counts(rig.last_plan()), (std::vector<int32_t>{1, 7}));
  rig.Commit();
  ASSERT_TRUE(rig.Plan());
  EXPECT_EQ(Counts(rig.last_plan()), (std::vector<int32_t>{1, 5, 2}))
      << "a decode, the third, which is new, and the rest of the second";
  rig.Commit();
  rig.RunAll();
  ExpectAllRight(rig);
}

TEST(SchedulerTest, NoMoreRunThanTheLimitOrTheBudgetAllows) {
  for (const auto& [running_max, budget, most] :
       {std::tuple{2, 16, 2u}, std::tuple{8, 3, 3u}, std::tuple{100, 64, 8u}}) {
    SchedulerRig rig(Worker(), SmallOptions(running_max, budget));
    for (int i = 0; i < 20; ++i) rig.Add(Prompt(2), 5);
    size_t widest = 0;
    while (rig.Plan()) {
      widest = std::max(widest, rig.last_plan().slices.size());
      rig.Commit();
      ASSERT_EQ(rig.Check(), "");
    }
    EXPECT_EQ(widest, most);
    ExpectAllRight(rig);
  }
}

TEST(SchedulerTest, APromptThatDoesNotFitTheFreeBlocksWaitsAndNobodyOvertakesIt) {
  SchedulerRig rig(Worker(10), SmallOptions(8, 64));
  const uint64_t first = rig.Add(Prompt(20), 3);   // 5 of 10 blocks
  const uint64_t big = rig.Add(Prompt(24, 2), 3);  // 6 blocks
  const uint64_t small = rig.Add(Prompt(2, 3), 3);
  ASSERT_TRUE(rig.Plan());
  EXPECT_EQ(rig.last_plan().slices.size(), 1u);
  EXPECT_EQ(rig.scheduler().stats().requests_waiting, 2);
  rig.Commit();
  rig.RunAll();
  EXPECT_EQ(rig.scheduler().stats().preemptions, 0);
  for (const uint64_t id : {first, big, small}) EXPECT_EQ(rig[id].tokens.size(), 3u);
}

TEST(SchedulerTest, AdmissionLeavesABlockForEachRunningSequence) {
  SchedulerRig rig(Worker(8), SmallOptions(8, 64));
  rig.Add(Prompt(12), 50);  // 3 blocks
  rig.Add(Prompt(20), 4);   // 5 blocks: would leave none for the first
  ASSERT_TRUE(rig.Plan());
  EXPECT_EQ(rig.last_plan().starts.size(), 1u);
}

TEST(SchedulerTest, ALoneSequenceMayFillThePool) {
  SchedulerRig rig(Worker(10), SmallOptions(4, 64));
  EXPECT_EQ(rig.scheduler().context_tokens(), 40);
  const uint64_t filling = rig.Add(Prompt(39), 100);
  const uint64_t growing = rig.Add(Prompt(1), 1000);
  rig.RunAll();
  EXPECT_EQ(rig[filling].tokens.size(), 1u);
  EXPECT_EQ(rig[growing].tokens.size(), 39u);
  EXPECT_EQ(rig[growing].finish, FinishReason::kLength);
  ExpectAllRight(rig);
}

TEST(SchedulerTest, TheLatestIsPreemptedAndItsAnswerIsWhole) {
  SchedulerRig rig(Worker(10), SmallOptions(4, 64));
  std::vector<uint64_t> ids;
  for (int i = 0; i < 3; ++i) ids.push_back(rig.Add(Prompt(4, i), 30));
  std::vector<int64_t> ends;
  while (rig.Plan()) {
    rig.Commit();
    ASSERT_EQ(rig.Check(), "");
  }
  EXPECT_GT(rig.scheduler().stats().preemptions, 0);
  EXPECT_GT(rig.scheduler().stats().recomputed_tokens, 0);
  EXPECT_EQ(rig.scheduler().stats().prompt_tokens, 12) << "each prompt token is counted once";
  EXPECT_EQ(rig.scheduler().stats().generation_tokens, 90);
  EXPECT_EQ(rig.scheduler().stats().kv_blocks_used, 0);
  ExpectAllRight(rig);
}

TEST(SchedulerTest, TheOldestIsNeverPreempted) {
  SchedulerRig rig(Worker(10), SmallOptions(8, 64));
  const uint64_t oldest = rig.Add(Prompt(4), 34);
  for (int i = 0; i < 7; ++i) rig.Add(Prompt(3), 20);
  for (size_t step = 1; step <= 34; ++step) {
    ASSERT_TRUE(rig.Plan());
    rig.Commit();
    ASSERT_EQ(rig[oldest].tokens.size(), step) << "one token in every step";
  }
  rig.RunAll();
  EXPECT_GT(rig.scheduler().stats().preemptions, 0);
  ExpectAllRight(rig);
}

TEST(SchedulerTest, APoolTooSmallForTwoDoesNotThrash) {
  auto worker = Worker(30);  // 120 tokens
  SchedulerRig rig(worker, SmallOptions(4, 8));
  rig.Add(Prompt(50), 40);
  rig.Add(Prompt(50), 40);
  rig.RunAll();
  ExpectAllRight(rig);
  const auto stats = rig.scheduler().stats();
  EXPECT_LE(stats.preemptions, 2);
  EXPECT_LT(stats.recomputed_tokens, 3 * 100);
}

// Sequences that fit one by one, and not together: whoever is set back is not set back again and
// again, however the pool, the budget and their lengths meet.
TEST(SchedulerTest, SequencesThatDoNotFitTogetherDoNotThrash) {
  int64_t preemptions = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto pick = [&](int32_t low, int32_t high) {
      return low + static_cast<int32_t>(random() % static_cast<uint64_t>(high - low + 1));
    };
    auto options = SmallOptions(8, pick(4, 32));
    options.share_prefixes = seed % 2 == 0;
    SchedulerRig rig(Worker(pick(8, 40)), options);
    const int32_t sequences = pick(2, 8), context = rig.scheduler().context_tokens();
    int64_t tokens = 0;
    for (int32_t i = 0; i < sequences; ++i) {
      auto request = std::make_shared<engine::GenerateRequest>();
      request->prompt = Prompt(pick(1, context - 1), i % kEndId);
      request->sampling.temperature = 0;
      request->stop.max_tokens = pick(1, 60);
      request->stop.ignore_eos = true;
      if (seed % 3 == 0) request->priority = pick(-1, 1);
      const auto prompt = static_cast<int32_t>(request->prompt.size());
      tokens += std::min(context, prompt + request->stop.max_tokens);
      rig.Add(request);
    }
    rig.RunAll(1 + static_cast<int32_t>(seed % 2));
    ExpectAllRight(rig);
    EXPECT_LE(rig.scheduler().stats().preemptions, 3 * sequences);
    EXPECT_LT(rig.scheduler().stats().recomputed_tokens, 2 * tokens);
    preemptions += rig.scheduler().stats().preemptions;
  }
  EXPECT_GT(preemptions, 50);
}

TEST(SchedulerTest, PenaltiesGetTheirHistoryAlsoAfterAPreemption) {
  SchedulerRig rig(Worker(10), SmallOptions(4, 64));
  for (int i = 0; i < 3; ++i) {
    auto request = std::make_shared<engine::GenerateRequest>();
    request->prompt = Prompt(4, i);
    request->sampling.presence_penalty = 0.5f;
    request->sampling.seed = 42;
    request->stop.max_tokens = 30;
    rig.Add(request);
  }
  rig.RunAll();  // the worker compares the history with the tokens that come
  EXPECT_GT(rig.scheduler().stats().preemptions, 0);
  ExpectAllRight(rig);
}

TEST(SchedulerTest, AReleasedSlotIsNamedInTheNextPlanThatComputes) {
  SchedulerRig rig(Worker(), SmallOptions(4, 64));
  rig.Add(Prompt(4), 1);
  ASSERT_TRUE(rig.Plan());
  const int32_t slot = rig.last_plan().starts[0].slot;
  rig.Commit();
  EXPECT_FALSE(rig.Plan()) << "a release alone is not worth a step";
  rig.Add(Prompt(4), 1);
  ASSERT_TRUE(rig.Plan());
  EXPECT_EQ(rig.last_plan().releases, std::vector<int32_t>{slot});
  rig.Commit();
  EXPECT_EQ(rig.Check(), "");
}

TEST(SchedulerTest, ResultsThatDoNotBelongToTheStepAreRefused) {
  Scheduler scheduler(Worker().limits, SmallOptions(4, 64));
  auto request = std::make_shared<engine::GenerateRequest>();
  request->prompt = Prompt(4);
  scheduler.Add(1, request, 0);
  std::vector<engine::SequenceEvent> events;
  engine::StepResult result;
  result.step = 1;
  EXPECT_FALSE(scheduler.Commit(result, {}, &events).ok()) << "nothing is in flight";
  const StepPlan plan = scheduler.Plan({});
  EXPECT_FALSE(scheduler.Commit(result, {}, &events).ok()) << "a token is missing";
  result.slices.push_back({plan.slices[0].slot + 1, 0, engine::SliceStatus::kOk});
  EXPECT_FALSE(scheduler.Commit(result, {}, &events).ok()) << "another slot";
  result.slices[0].slot = plan.slices[0].slot;
  result.slices.push_back({plan.slices[0].slot + 1, 0, engine::SliceStatus::kOk});
  EXPECT_FALSE(scheduler.Commit(result, {}, &events).ok()) << "a token too many";
  result.slices.pop_back();
  result.step = 2;
  EXPECT_FALSE(scheduler.Commit(result, {}, &events).ok()) << "another step";
  EXPECT_TRUE(events.empty());
  result.step = 1;
  EXPECT_TRUE(scheduler.Commit(result, {}, &events).ok());
  EXPECT_EQ(events.size(), 1u);
}

}  // namespace
}  // namespace sluice::testing
