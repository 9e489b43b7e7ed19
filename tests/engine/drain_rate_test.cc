// When one who was refused may come back.
#include "engine/drain_rate.h"

#include <gtest/gtest.h>

namespace sluice::engine {
namespace {

Clock::time_point At(double seconds) { return Clock::time_point(DurationOf(1000 + seconds)); }

TEST(DrainRateTest, WithoutAnythingKnownTheyComeBackEveryTwoSeconds) {
  DrainRate rate;
  EXPECT_EQ(rate.Appoint(1, 0, At(0)), 2);
  EXPECT_EQ(rate.Appoint(1, 0, At(0)), 4);
}

TEST(DrainRateTest, TheRefusedComeBackOneAfterAnotherAtHalfTheMeasuredRate) {
  DrainRate rate;
  // Two answers a second, long enough for the mean to settle.
  for (int i = 0; i < 200; ++i) rate.OnEnded(1, At(i * 0.5));
  for (int i = 1; i <= 20; ++i) {
    EXPECT_NEAR(rate.Appoint(1, 0, At(100)), i, 0.1 * i + 1) << i;
  }
  // A line that has had its time is gone.
  EXPECT_LE(rate.Appoint(1, 2, At(130)), 2);
}

TEST(DrainRateTest, BeforeAnythingHasEndedTheExpectedRateCounts) {
  DrainRate rate;
  for (int i = 1; i < 40; ++i) rate.Appoint(1, 4, At(0));
  EXPECT_EQ(rate.Appoint(1, 4, At(0)), 20);
}

TEST(DrainRateTest, NothingThatEndedForLongMeansALongButBoundedWait) {
  DrainRate rate;
  rate.OnEnded(1, At(0));
  EXPECT_GT(rate.Appoint(5, 0, At(60)), 100);
  for (int i = 0; i < 100; ++i) EXPECT_LE(rate.Appoint(1000, 0, At(61)), 600);
  EXPECT_EQ(rate.Appoint(1, 0, At(61)), 600);
}

TEST(DrainRateTest, IdleTimeTellsNothing) {
  DrainRate rate;
  rate.OnBusy(At(0));
  for (int i = 0; i < 200; ++i) rate.OnEnded(1, At(i * 0.5));
  rate.OnBusy(At(100000));
  EXPECT_NEAR(rate.Appoint(10, 0, At(100000)), 10, 2);
}

}  // namespace
}  // namespace sluice::engine
