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

TEST(DrainRateTest, ItIsWhatTheMeasuredRateTakesForThoseWhoCameBefore) {
  DrainRate rate;
  // Two answers a second, long enough for the mean to settle.
  for (int i = 0; i < 200; ++i) rate.OnEnded(1, At(i * 0.5));
  rate.OnRefused(20, At(100));
  const int seconds = rate.RetryAfterSeconds(At(100));
  EXPECT_GE(seconds, 9);
  EXPECT_LE(seconds, 12);
  // Each answer that ends lets one of the line in.
  for (int i = 0; i < 20; ++i) rate.OnEnded(1, At(100 + i * 0.5));
  EXPECT_EQ(rate.RetryAfterSeconds(At(110)), 1);
}

TEST(DrainRateTest, NothingThatEndedForLongMeansALongButBoundedWait) {
  DrainRate rate;
  rate.OnEnded(1, At(0));
  EXPECT_GT(rate.RetryAfterSeconds(At(30)), 100);
  EXPECT_EQ(rate.RetryAfterSeconds(At(10000)), 600);
}

TEST(DrainRateTest, IdleTimeTellsNothing) {
  DrainRate rate;
  rate.OnBusy(At(0));
  for (int i = 0; i < 200; ++i) rate.OnEnded(1, At(i * 0.5));
  const int before = rate.RetryAfterSeconds(At(99.5));
  rate.OnBusy(At(100000));
  EXPECT_EQ(rate.RetryAfterSeconds(At(100000)), before);
  EXPECT_EQ(before, 1);
}

}  // namespace
}  // namespace sluice::engine
