// The cost of steps is found again in what it makes of them, under noise and where terms can't be
// told apart; the scatter of real steps comes out as it went in.
#include "engine/simulate/step_time.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

namespace sluice::testing {
namespace {

using engine::FitStepCost;
using engine::ObservedStep;
using engine::StepCost;
using engine::StepTime;
using engine::StepWork;

constexpr StepCost kCost = {2e-3, 3e-5, 4e-9, 1e-4, 2e-7};

std::vector<ObservedStep> Observe(int count, const std::function<double(std::mt19937_64&)>& noise) {
  std::mt19937_64 random(7);
  std::vector<ObservedStep> observed;
  for (int i = 0; i < count; ++i) {
    StepWork work;
    work.sequences = 1 + static_cast<int32_t>(random() % 32);
    const int32_t prefill = random() % 3 == 0 ? static_cast<int32_t>(random() % 200) : 0;
    work.tokens = work.sequences + prefill;
    work.attended = static_cast<double>(work.tokens) * static_cast<double>(random() % 4000);
    work.context = static_cast<double>(work.sequences) * static_cast<double>(random() % 4000);
    observed.push_back({work, kCost.Seconds(work) * noise(random)});
  }
  return observed;
}

void ExpectClose(const StepCost& cost, double share) {
  EXPECT_NEAR(cost.step, kCost.step, share * kCost.step);
  EXPECT_NEAR(cost.token, kCost.token, share * kCost.token);
  EXPECT_NEAR(cost.position, kCost.position, share * kCost.position);
  EXPECT_NEAR(cost.sequence, kCost.sequence, share * kCost.sequence);
  EXPECT_NEAR(cost.context, kCost.context, share * kCost.context);
}

TEST(StepTimeTest, FindsTheCostExactly) {
  const auto cost = FitStepCost(Observe(100, [](auto&) { return 1.0; }));
  ASSERT_TRUE(cost.ok());
  ExpectClose(*cost, 1e-6);
}

TEST(StepTimeTest, FindsTheCostUnderNoiseAndStalls) {
  const auto cost = FitStepCost(Observe(4000, [](auto& random) {
    const double scatter = 0.95 + 0.1 * static_cast<double>(random() % 1000) / 1000;
    return random() % 100 == 0 ? 20.0 : scatter;
  }));
  ASSERT_TRUE(cost.ok());
  ExpectClose(*cost, 0.05);
}

TEST(StepTimeTest, TermsThatCannotBeToldApartStillPredict) {
  // One token for each sequence, none of which attends to anything.
  std::vector<ObservedStep> observed;
  for (int32_t n = 1; n <= 40; ++n) observed.push_back({{n, n, 0}, 1e-3 + n * 1e-4});
  const auto cost = FitStepCost(observed);
  ASSERT_TRUE(cost.ok());
  EXPECT_NEAR(cost->Seconds({20, 20, 0}), 3e-3, 1e-8);
  for (const double term : {cost->step, cost->token, cost->position, cost->sequence, cost->context})
    EXPECT_GE(term, 0);
}

TEST(StepTimeTest, NoTermIsNegative) {
  std::vector<ObservedStep> observed;  // shorter with more tokens
  for (int32_t n = 1; n <= 40; ++n) observed.push_back({{1, n, n * 1.0}, 1e-2 - n * 1e-4});
  const auto cost = FitStepCost(observed);
  ASSERT_TRUE(cost.ok());
  EXPECT_EQ(cost->token, 0);
  EXPECT_EQ(cost->position, 0);
  EXPECT_NEAR(cost->Seconds({1, 20, 20}), 8e-3, 1e-3);
}

TEST(StepTimeTest, TooFewStepsAreNoFit) {
  EXPECT_FALSE(FitStepCost(Observe(15, [](auto&) { return 1.0; })).ok());
  EXPECT_TRUE(FitStepCost(Observe(16, [](auto&) { return 1.0; })).ok());
}

TEST(StepTimeTest, ScatterIsThatOfStepsOfAboutAsManyTokens) {
  std::vector<ObservedStep> observed;
  const StepCost cost{1e-3, 0, 0, 0};
  for (int i = 0; i < 100; ++i) {
    observed.push_back({{1, 1, 0}, i < 90 ? 1e-3 : 5e-3});
    observed.push_back({{1, 100, 0}, 2e-3});
  }
  const StepTime time(cost, observed);
  EXPECT_DOUBLE_EQ(time.Seconds({1, 1, 0}), 1.4e-3);
  EXPECT_DOUBLE_EQ(time.Seconds({1, 100, 0}), 2e-3);
  EXPECT_NEAR(time.Seconds({1, 5000, 0}), 1.7e-3, 1e-9) << "never seen: as all";
  // Each observed one stands for its own place among its like.
  ASSERT_EQ(time.starts().size(), observed.size());
  int slow = 0;
  for (size_t i = 0; i < observed.size(); ++i) {
    EXPECT_DOUBLE_EQ(time.SecondsLike(i, {1, 100, 0}), 2e-3);
    if (observed[i].work.tokens == 1) {
      EXPECT_DOUBLE_EQ(time.SecondsLike(i, {1, 1, 0}), observed[i].seconds);
    }
    slow += time.SecondsLike(i, {1, 1, 0}) > 4e-3 ? 1 : 0;
  }
  EXPECT_EQ(slow, 20);
}

TEST(ScatterWalkTest, PlaysStretchesOfWhatWasMeasured) {
  std::vector<double> starts;  // 100 seconds
  for (int i = 0; i < 1000; ++i) starts.push_back(5 + 0.1 * i);
  engine::ScatterWalk walk(1, starts), same(1, starts), other(2, starts);
  size_t last = 0;
  int followed = 0, differs = 0;
  std::vector<int> seen(1000);
  for (int i = 0; i < 100'000; ++i) {
    const size_t place = walk.PlaceAt(i * 0.1);
    ASSERT_LT(place, 1000u);
    EXPECT_EQ(place, same.PlaceAt(i * 0.1));
    differs += place != other.PlaceAt(i * 0.1) ? 1 : 0;
    followed += place == (last + 1) % 999 || place == last + 1 ? 1 : 0;
    ++seen[place];
    last = place;
  }
  EXPECT_GT(differs, 90'000);
  EXPECT_GT(followed, 95'000) << "but where a stretch begins";
  EXPECT_GT(*std::min_element(seen.begin() + 1, seen.end()), 50) << "of 100: all have their turn";
}

TEST(ScatterWalkTest, TimeGoesOnAsFastAsWhenItWasMeasured) {
  std::vector<double> starts;
  for (int i = 0; i < 1000; ++i) starts.push_back(i);
  engine::ScatterWalk walk(1, starts);
  size_t last = 0;
  int followed = 0;
  for (int i = 0; i < 1000; ++i) {
    const size_t place = walk.PlaceAt(i * 0.5);
    followed += place == last || place == last + 1 ? 1 : 0;
    last = place;
  }
  EXPECT_GT(followed, 950);
}

TEST(ScatterWalkTest, StepsOfNoKnownTimeComeInAnyOrder) {
  const std::vector<double> starts(10);
  engine::ScatterWalk walk(1, starts);
  std::vector<int> seen(10);
  for (int i = 0; i < 1000; ++i) ++seen[walk.PlaceAt(i)];
  EXPECT_GT(*std::min_element(seen.begin(), seen.end()), 50);
}

TEST(StepTimeTest, TheWorkOfAPlan) {
  engine::StepPlan plan;
  plan.slices = {{0, 10, 0, 1, engine::SliceOutput::kSample, 0},
                 {1, 0, 1, 4, engine::SliceOutput::kNone, 0}};
  const StepWork work = engine::WorkOf(plan);
  EXPECT_EQ(work.sequences, 2);
  EXPECT_EQ(work.tokens, 5);
  EXPECT_DOUBLE_EQ(work.attended, 11 + 1 + 2 + 3 + 4);
  EXPECT_DOUBLE_EQ(work.context, 11 + 4);
}

}  // namespace
}  // namespace sluice::testing
