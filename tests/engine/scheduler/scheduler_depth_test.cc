// Two steps in flight: what is planned before the last result is known.
#include <gtest/gtest.h>

#include "tests/engine/scheduler/scheduler_rig.h"

namespace sluice::testing {
namespace {

using engine::FinishReason;
using engine::kLastSampledToken;

constexpr int32_t kScripted = 50;

SimulatedWorker::Options Worker(int32_t kv_blocks = 100) {
  SimulatedWorker::Options options = SmallWorker(kv_blocks, 60, 100);
  options.scripts[kScripted] = {1, 2, kEndId, 3, 4, 5};
  return options;
}

TEST(SchedulerDepthTest, TheNextTokenIsTakenFromTheWorker) {
  SchedulerRig rig(Worker(), SmallOptions());
  const uint64_t id = rig.Add({3, 4, 5}, 10);
  ASSERT_TRUE(rig.Plan());
  ASSERT_TRUE(rig.Plan());
  EXPECT_EQ(rig.last_plan().tokens, std::vector<int32_t>{kLastSampledToken});
  EXPECT_EQ(rig.last_plan().slices[0].first_position, 3);
  EXPECT_EQ(rig.last_plan().slices[0].generated, 1);
  rig.Commit();
  rig.Commit();
  EXPECT_EQ(rig.Check(), "");
  EXPECT_EQ(rig[id].tokens.size(), 2u);
}

TEST(SchedulerDepthTest, NothingIsPlannedBeyondTheLastToken) {
  SchedulerRig rig(Worker(), SmallOptions());
  rig.Add({3, 4, 5}, 2);
  ASSERT_TRUE(rig.Plan());
  ASSERT_TRUE(rig.Plan());
  EXPECT_FALSE(rig.Plan());
  rig.Commit();
  EXPECT_FALSE(rig.Plan());
}

TEST(SchedulerDepthTest, ATokenComputedAfterTheEndIsDroppedAndBlocksAreHeldUntilThen) {
  SchedulerRig rig(Worker(), SmallOptions());
  const uint64_t id = rig.Add({kScripted, 1}, 10);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(rig.Plan());
  ASSERT_TRUE(rig.Plan());  // the fourth token, one after the end
  for (int i = 0; i < 3; ++i) rig.Commit();
  EXPECT_EQ(rig[id].ends, 1);
  EXPECT_GT(rig.scheduler().stats().kv_blocks_used, 0) << "a step in flight still uses them";
  EXPECT_EQ(rig.scheduler().stats().requests_running, 0);
  rig.Commit();
  EXPECT_EQ(rig.Check(), "");
  EXPECT_EQ(rig.scheduler().stats().kv_blocks_used, 0);
  EXPECT_EQ(rig[id].tokens, (std::vector<int32_t>{1, 2, kEndId}));
  EXPECT_EQ(rig[id].events_after_end, 0);
  EXPECT_EQ(rig.scheduler().stats().generation_tokens, 3);
}

TEST(SchedulerDepthTest, CancelledInFlightMeansRetiringUntilTheStepIsDone) {
  SchedulerRig rig(Worker(), SmallOptions());
  const uint64_t id = rig.Add({3, 4, 5}, 10);
  ASSERT_TRUE(rig.Plan());
  ASSERT_TRUE(rig.Plan());
  rig.Cancel(id);
  EXPECT_EQ(rig[id].ends, 1);
  EXPECT_EQ(rig.Check(), "");
  rig.Commit();
  EXPECT_GT(rig.scheduler().stats().kv_blocks_used, 0);
  rig.Commit();
  EXPECT_EQ(rig.scheduler().stats().kv_blocks_used, 0);
  EXPECT_TRUE(rig[id].tokens.empty());
  EXPECT_EQ(rig.Check(), "");
}

TEST(SchedulerDepthTest, APreemptedSequenceKeepsTheTokensInFlight) {
  SchedulerRig rig(Worker(6), SmallOptions());  // 24 tokens
  const uint64_t first = rig.Add({3, 4, 5}, 18);
  const uint64_t second = rig.Add({6, 4, 5}, 18);
  rig.RunAll(2);
  EXPECT_GT(rig.scheduler().stats().preemptions, 0);
  for (const uint64_t id : {first, second}) {
    EXPECT_EQ(rig[id].tokens, rig.Expected(id));
    EXPECT_EQ(rig[id].ends, 1);
  }
}

TEST(SchedulerDepthTest, AFaultAtDepthTwoEndsOnce) {
  auto worker = Worker();
  worker.non_finite = [](const SimulatedWorker::SampleContext& context) {
    return context.generated == 1;
  };
  SchedulerRig rig(worker, SmallOptions());
  const uint64_t id = rig.Add({3, 4, 5}, 10);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(rig.Plan());
  for (int i = 0; i < 3; ++i) rig.Commit();
  EXPECT_EQ(rig.Check(), "");
  EXPECT_EQ(rig[id].finish, FinishReason::kError);
  EXPECT_EQ(rig[id].ends, 1);
  EXPECT_EQ(rig[id].events_after_end, 0);
  EXPECT_EQ(rig[id].tokens.size(), 1u);
}

}  // namespace
}  // namespace sluice::testing
