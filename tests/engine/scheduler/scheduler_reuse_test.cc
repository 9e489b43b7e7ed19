// Sequences that begin alike share what is computed, however they come, and only what is sound.
#include <gtest/gtest.h>

#include "tests/engine/scheduler/scheduler_rig.h"

namespace sluice::testing {
namespace {

using engine::FinishReason;
using engine::GenerateRequest;

SimulatedWorker::Options Worker(int32_t kv_blocks = 100) {
  return SmallWorker(kv_blocks, 200, 1000);
}

// Tokens that depend on `text`, so that prompts of different texts share nothing.
std::vector<int32_t> Text(int32_t text, int32_t size) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < size; ++i) tokens.push_back(100 + (text * 131 + i * 17) % 800);
  return tokens;
}

std::shared_ptr<GenerateRequest> Request(std::vector<int32_t> prompt, int32_t max_tokens) {
  auto request = std::make_shared<GenerateRequest>();
  request->prompt = std::move(prompt);
  request->sampling.temperature = 0;
  request->stop.max_tokens = max_tokens;
  request->stop.ignore_eos = true;
  return request;
}

int32_t PlannedTokens(const SchedulerRig& rig) {
  return static_cast<int32_t>(rig.last_plan().tokens.size());
}

void ExpectAllRight(const SchedulerRig& rig) {
  ASSERT_EQ(rig.Check(), "");
  for (const auto& [id, outcome] : rig.outcomes())
    EXPECT_EQ(outcome.tokens, rig.Expected(id)) << "sequence " << id;
}

TEST(SchedulerReuseTest, AWholePromptThatIsThereCostsItsLastTokenAlone) {
  for (const int32_t size : {16, 17, 18, 19, 20}) {
    SchedulerRig rig(Worker(), SmallOptions());
    rig.Add(Text(1, size), 3);
    rig.RunAll();
    rig.Add(Text(1, size), 3);
    ASSERT_TRUE(rig.Plan());
    EXPECT_EQ(PlannedTokens(rig), 1) << size;
    rig.Commit();
    rig.RunAll();
    ExpectAllRight(rig);
    EXPECT_EQ(rig.scheduler().stats().prefix_hit_tokens, size - 1);
  }
}

TEST(SchedulerReuseTest, ABeginningIsSharedToTheTokenByACopyOfItsLastBlock) {
  for (int32_t shared = 1; shared < 20; ++shared) {
    SchedulerRig rig(Worker(), SmallOptions());
    rig.Add(Text(1, 20), 2);
    rig.RunAll();
    std::vector<int32_t> prompt = Text(1, shared);
    for (const int32_t token : Text(2, 6)) prompt.push_back(token);
    rig.Add(prompt, 2);
    ASSERT_TRUE(rig.Plan());
    EXPECT_EQ(PlannedTokens(rig), 6) << shared;
    EXPECT_EQ(rig.last_plan().copies.size(), shared % 4 == 0 ? 0u : 1u) << shared;
    rig.Commit();
    rig.RunAll();
    ExpectAllRight(rig);
  }
}

// The next turn of a conversation: prompt, answer, and a new question.
TEST(SchedulerReuseTest, AnAnswerIsSharedWithTheTurnThatFollowsIt) {
  SchedulerRig rig(Worker(), SmallOptions());
  const uint64_t first = rig.Add(Text(1, 10), 9);
  rig.RunAll();
  std::vector<int32_t> prompt = Text(1, 10);
  prompt.insert(prompt.end(), rig[first].tokens.begin(), rig[first].tokens.end());
  for (const int32_t token : Text(3, 5)) prompt.push_back(token);
  rig.Add(prompt, 2);
  ASSERT_TRUE(rig.Plan());
  EXPECT_EQ(PlannedTokens(rig), 6) << "the question, and the answer's last token, never computed";
  rig.Commit();
  rig.RunAll();
  ExpectAllRight(rig);
}

TEST(SchedulerReuseTest, WhoeverNeedsWhatIsBeingComputedWaitsForIt) {
  auto options = SmallOptions();
  options.step_tokens = 12;
  SchedulerRig rig(Worker(), options);
  const uint64_t first = rig.Add(Text(1, 40), 3);
  const uint64_t second = rig.Add(Text(1, 40), 3);
  const uint64_t other = rig.Add(Text(2, 5), 3);
  int32_t tokens = 0;
  while (rig.Plan()) {
    tokens += PlannedTokens(rig);
    rig.Commit();
  }
  ExpectAllRight(rig);
  EXPECT_EQ(tokens, 40 + 1 + 5 + 3 * 2) << "40 once, the last token twice, and what is generated";
  EXPECT_EQ(rig[first].tokens, rig[second].tokens);
  EXPECT_EQ(rig[other].tokens.size(), 3u);
}

TEST(SchedulerReuseTest, AnswersToOnePromptShareIt) {
  SchedulerRig rig(Worker(), SmallOptions());
  auto request = Request(Text(1, 30), 6);
  request->n = 4;
  request->sampling.temperature = 1;
  for (int32_t choice = 0; choice < 4; ++choice) rig.Add(request, choice);
  int32_t prefilled = 0;
  while (rig.Plan()) {
    for (const auto& slice : rig.last_plan().slices)
      if (slice.generated == 0) prefilled += slice.count;
    rig.Commit();
  }
  EXPECT_EQ(prefilled, 30 + 3);
  ExpectAllRight(rig);
}

TEST(SchedulerReuseTest, SaltsKeepSequencesApart) {
  SchedulerRig rig(Worker(), SmallOptions());
  for (const char* salt : {"", "a", "b", "a"}) {
    auto request = Request(Text(1, 21), 2);
    request->cache_salt = salt;
    rig.Add(request);
    rig.RunAll();
  }
  EXPECT_EQ(rig.scheduler().stats().prefix_hit_tokens, 20) << "the second of salt a alone";
  ExpectAllRight(rig);
}

TEST(SchedulerReuseTest, WhatAFaultySequenceComputedIsNotShared) {
  auto worker = Worker();
  worker.non_finite = [](const SimulatedWorker::SampleContext& context) {
    return context.generated == 2;
  };
  SchedulerRig rig(worker, SmallOptions());
  const uint64_t faulty = rig.Add(Text(1, 21), 9);
  rig.RunAll();
  EXPECT_EQ(rig[faulty].finish, FinishReason::kError);
  rig.Add(Text(1, 21), 2);
  ASSERT_TRUE(rig.Plan());
  EXPECT_EQ(PlannedTokens(rig), 21);
  rig.Commit();
  rig.RunAll();
}

TEST(SchedulerReuseTest, ACancelledPrefillLeavesWhatIsDoneAndHoldsNobodyUp) {
  auto options = SmallOptions();
  options.step_tokens = 8;
  SchedulerRig rig(Worker(), options);
  const uint64_t first = rig.Add(Text(1, 40), 3);
  ASSERT_TRUE(rig.Plan());
  rig.Commit();
  const uint64_t second = rig.Add(Text(1, 40), 3);
  rig.Cancel(first);
  rig.RunAll();
  EXPECT_EQ(rig[second].tokens, rig.Expected(second));
  EXPECT_EQ(rig.scheduler().stats().prefix_hit_tokens, 8);
}

// Its beginning is found in every step in which the rest has no room: that counts once it is taken
// in, and only what is not computed then.
TEST(SchedulerReuseTest, WhatIsFoundCountsOnceHoweverLongTheRestWaits) {
  SchedulerRig rig(Worker(20), SmallOptions());
  rig.Add(Text(1, 30), 2);
  rig.RunAll();
  const uint64_t holder = rig.Add(Text(2, 20), 20);
  ASSERT_TRUE(rig.Plan());
  rig.Commit();
  std::vector<int32_t> prompt = Text(1, 30);
  for (const int32_t token : Text(3, 40)) prompt.push_back(token);
  const uint64_t waits = rig.Add(prompt, 2);
  int32_t waited = 0, computed = 0;
  while (rig.Plan()) {
    const bool taken_in = rig[holder].ends > 0;
    waited += !taken_in;
    for (const auto& slice : rig.last_plan().slices)
      if (taken_in && slice.generated == 0) computed += slice.count;
    if (!taken_in) {
      EXPECT_EQ(rig.scheduler().stats().prefix_hit_tokens, 0);
      EXPECT_EQ(rig.scheduler().stats().prefix_query_tokens, 50);
    }
    rig.Commit();
  }
  ExpectAllRight(rig);
  EXPECT_GT(waited, 10);
  EXPECT_EQ(rig[waits].cached_tokens, 30);
  EXPECT_EQ(rig.scheduler().stats().prefix_hit_tokens, 30);
  EXPECT_EQ(rig.scheduler().stats().prefix_query_tokens, 30 + 20 + 70);
  EXPECT_EQ(computed, 40);
}

// A prompt that many share survives one pass over more text than memory holds.
TEST(SchedulerReuseTest, OneLongScanDoesNotPushOutWhatManyShare) {
  SchedulerRig rig(Worker(64), SmallOptions());
  const auto ask = [&](int32_t own) {
    std::vector<int32_t> prompt = Text(1, 40);
    for (const int32_t token : Text(own, 4)) prompt.push_back(token);
    const int64_t before = rig.scheduler().stats().prefix_hit_tokens;
    rig.Add(prompt, 2);
    rig.RunAll();
    return rig.scheduler().stats().prefix_hit_tokens - before;
  };
  for (int32_t i = 0; i < 6; ++i) ask(10 + i);
  for (int32_t i = 0; i < 8; ++i) {  // 8 * 40 tokens, 80 blocks
    rig.Add(Text(50 + i, 40), 2);
    rig.RunAll();
  }
  EXPECT_GE(ask(30), 40);
  ExpectAllRight(rig);
}

TEST(SchedulerReuseTest, NothingIsSharedWhenSwitchedOff) {
  auto options = SmallOptions();
  options.share_prefixes = false;
  SchedulerRig rig(Worker(), options);
  for (int32_t i = 0; i < 3; ++i) {
    rig.Add(Text(1, 21), 2);
    rig.RunAll();
  }
  EXPECT_EQ(rig.scheduler().stats().prefix_hit_tokens, 0);
  EXPECT_EQ(rig.scheduler().stats().kv_blocks_idle, 0);
  ExpectAllRight(rig);
}

}  // namespace
}  // namespace sluice::testing
