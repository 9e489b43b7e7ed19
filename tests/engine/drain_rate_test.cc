// When one who was refused may come back.
#include "engine/drain_rate.h"

#include <gtest/gtest.h>

namespace sluice::engine {
namespace {

Clock::time_point At(double seconds) {
  return Clock::time_point(
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(1000 + seconds)));
}

TEST(DrainRateTest, WithoutAnythingKnownItIsOneSecond) {
  DrainRate rate;
  EXPECT_EQ(rate.RetryAfterSeconds(At(0)), 1);
}

TEST(DrainRateTest, TheRefusedComeBackOneAfterAnotherAtHalfTheMeasuredRate) {
  DrainRate rate;
  // Two answers a second, long enough for the mean to settle.
  for (int i = 0; i < 200; ++i) rate.OnEnded(1, At(i * 0.5));
  for (int i = 1; i <= 20; ++i) {
    rate.OnRefused(1, 0, At(100));
    EXPECT_NEAR(rate.RetryAfterSeconds(At(100)), i, 0.1 * i + 1) << i;
  }
  // A line that has had its time is gone.
  EXPECT_EQ(rate.RetryAfterSeconds(At(130)), 1);
  rate.OnRefused(1, 2, At(130));
  EXPECT_LE(rate.RetryAfterSeconds(At(130)), 2);
}

TEST(DrainRateTest, BeforeAnythingHasEndedTheExpectedRateCounts) {
  DrainRate rate;
  for (int i = 0; i < 40; ++i) rate.OnRefused(1, 4, At(0));
  EXPECT_EQ(rate.RetryAfterSeconds(At(0)), 20);
}

TEST(DrainRateTest, NothingThatEndedForLongMeansALongButBoundedWait) {
  DrainRate rate;
  rate.OnEnded(1, At(0));
  rate.OnRefused(5, 0, At(60));
  EXPECT_GT(rate.RetryAfterSeconds(At(60)), 100);
  for (int i = 0; i < 100; ++i) rate.OnRefused(1000, 0, At(61));
  EXPECT_EQ(rate.RetryAfterSeconds(At(61)), 600);
}

TEST(DrainRateTest, IdleTimeTellsNothing) {
  DrainRate rate;
  rate.OnBusy(At(0));
  for (int i = 0; i < 200; ++i) rate.OnEnded(1, At(i * 0.5));
  rate.OnBusy(At(100000));
  rate.OnRefused(10, 0, At(100000));
  EXPECT_NEAR(rate.RetryAfterSeconds(At(100000)), 10, 2);
}

}  // namespace
}  // namespace sluice::engine
