// Random arrivals, lengths, cancels, deadlines, tenants, targets, faults, tiny pools, and one to
// three steps in flight: a million steps, after each of which all books balance. A failure prints
// its seed and the least that still fails.
#include <gtest/gtest.h>

#include "tests/engine/scheduler/scheduler_script.h"
#include "tests/support/test_scale.h"

namespace sluice::testing {
namespace {

// A test of the test: a script whose second half can't matter shrinks to what does.
TEST(SchedulerScriptTest, ShrinksToWhatMatters) {
  Traffic traffic;
  traffic.steps = 100;
  traffic.arrivals = 0.3;
  Script script = RandomScript(1, traffic);
  ASSERT_GT(script.events.size(), 10u);
  script.worker.fail_at_step = 5;  // the device is lost as soon as there was so much to do
  const PlayResult whole = Play(script);
  ASSERT_NE(whole.error, "");
  const Script least = Shrunk(script);
  EXPECT_NE(Play(least).error, "");
  EXPECT_LE(least.events.size(), 2u);
  EXPECT_NE(Describe(least).find("request"), std::string::npos) << Describe(least);
}

class SchedulerPropertyTest : public ::testing::TestWithParam<int32_t> {};

TEST_P(SchedulerPropertyTest, EveryBookBalancesAfterEveryStep) {
  engine::EngineStats total;
  int64_t faults = 0, deadlines = 0;
  int64_t overtaken = 0;
  const auto seeds = static_cast<uint64_t>(Scaled(450));
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    Traffic traffic;
    traffic.depth = GetParam();
    traffic.steps = 400;
    traffic.arrivals = 0.05 * static_cast<double>(seed % 7);
    traffic.cancels = seed % 3 == 0 ? 0.1 : 0;
    traffic.faults = seed % 4 == 0 ? 0.01 : 0;
    traffic.deadlines = seed % 5 == 0 ? 0.3 : 0;
    const Script script = RandomScript(seed * 1000003 + static_cast<uint64_t>(GetParam()), traffic);
    const PlayResult result = Play(script);
    if (!result.error.empty()) {
      const Script least = Shrunk(script);
      FAIL() << "seed " << seed << ", " << result.error << "\nThe least that fails, "
             << Play(least).error << ":\n"
             << Describe(least);
    }
    total.steps += result.stats.steps;
    total.preemptions += result.stats.preemptions;
    total.generation_tokens += result.stats.generation_tokens;
    total.prefix_query_tokens += result.stats.prefix_query_tokens;
    total.prefix_hit_tokens += result.stats.prefix_hit_tokens;
    faults += result.faults;
    deadlines += result.deadlines;
    overtaken = std::max(overtaken, result.overtaken_most);
  }
  std::printf(
      "depth %d: %lld steps, %lld tokens, %lld preemptions, %lld faults, %lld deadlines passed, "
      "%lld of %lld prompt tokens found in memory, overtaken at most %lld times\n",
      GetParam(), static_cast<long long>(total.steps),
      static_cast<long long>(total.generation_tokens), static_cast<long long>(total.preemptions),
      static_cast<long long>(faults), static_cast<long long>(deadlines),
      static_cast<long long>(total.prefix_hit_tokens),
      static_cast<long long>(total.prefix_query_tokens), static_cast<long long>(overtaken));
  EXPECT_GT(total.steps, 300 * static_cast<int64_t>(seeds));
  EXPECT_GT(total.preemptions, static_cast<int64_t>(seeds));
  EXPECT_GT(faults, static_cast<int64_t>(seeds) / 10);
  EXPECT_GT(deadlines, static_cast<int64_t>(seeds));
  EXPECT_GT(total.prefix_hit_tokens, total.prefix_query_tokens / 5);
}

INSTANTIATE_TEST_SUITE_P(Depths, SchedulerPropertyTest, ::testing::Values(1, 2, 3));

}  // namespace
}  // namespace sluice::testing
