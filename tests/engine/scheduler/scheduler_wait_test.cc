// How long a request that comes now would wait, against how long it does.
#include <gtest/gtest.h>

#include "tests/engine/scheduler/scheduler_rig.h"

namespace sluice::testing {
namespace {

using engine::Scheduler;

SimulatedWorker::Options Worker() {
  auto worker = SmallWorker(1000, 1000, 5000);
  worker.step_seconds = 0;
  worker.token_seconds = 1e-3;
  return worker;
}

// Virtual seconds until `id` has its first token.
double UntilFirstToken(SchedulerRig* rig, uint64_t id) {
  const double begin = rig->worker().virtual_seconds();
  while ((*rig)[id].tokens.empty()) {
    EXPECT_TRUE(rig->Plan());
    rig->Commit();
  }
  return rig->worker().virtual_seconds() - begin;
}

TEST(SchedulerWaitTest, WhatIsLeftOfAPromptThatIsPartlyComputed) {
  SchedulerRig rig(Worker(), SmallOptions());
  rig.Add(rig.MakeRequest(640, 1));
  rig.RunAll();
  EXPECT_EQ(rig.scheduler().stats().predicted_wait, 0);
  const uint64_t longer = rig.Add(rig.MakeRequest(900, 1));
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(rig.Plan());
    rig.Commit();
  }
  const double predicted = rig.scheduler().stats().predicted_wait;
  const double waited = UntilFirstToken(&rig, longer);
  EXPECT_GT(waited, 0.5);
  EXPECT_NEAR(predicted, waited, 0.05 * waited);
}

TEST(SchedulerWaitTest, TheSeatsOfThoseBefore) {
  SchedulerRig rig(Worker(), SmallOptions(2));
  // Keeps being used, so that the mean is of many.
  for (int i = 0; i < 60; ++i) rig.Add(rig.MakeRequest(4, 40));
  while (rig.scheduler().stats().requests_waiting > 20) {
    ASSERT_TRUE(rig.Plan());
    rig.Commit();
  }
  const double predicted = rig.scheduler().stats().predicted_wait;
  const double waited = UntilFirstToken(&rig, rig.Add(rig.MakeRequest(4, 40)));
  EXPECT_GT(waited, 0.4);
  EXPECT_NEAR(predicted, waited, 0.1 * waited);
}

}  // namespace
}  // namespace sluice::testing
