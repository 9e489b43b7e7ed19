// The simulation of loads small enough to follow by hand.
#include "engine/simulate/simulator.h"

#include <gtest/gtest.h>

#include "engine/simulate/trace_workload.h"

namespace sluice::testing {
namespace {

using engine::RunFigures;
using engine::SimulatedServer;
using engine::SimulationOptions;
using engine::StepCost;
using engine::StepTime;
using engine::Trace;
using engine::TraceRequest;
using engine::TraceWorkload;

constexpr double kMs = 1e-3;

// A step takes 1 ms, and 0.01 ms for each token.
SimulatedServer SmallServer() {
  SimulatedServer server;
  server.limits = {8, 64, 200, 16, 1000, TraceWorkload::kVocabulary};
  server.scheduler.running_max = 8;
  server.scheduler.step_tokens = 64;
  server.time = StepTime(StepCost{1 * kMs, 0.01 * kMs, 0, 0});
  return server;
}

TraceRequest Row(double seconds, int32_t prompt, int32_t output, std::vector<int64_t> blocks = {}) {
  return {seconds, prompt, output, std::move(blocks)};
}

RunFigures Play(const SimulatedServer& server, std::vector<TraceRequest> rows, double speed = 1,
                const SimulationOptions& options = {}) {
  Trace trace;
  trace.requests = std::move(rows);
  const TraceWorkload workload(std::move(trace), speed, ContextTokens(server.limits));
  const auto figures = engine::Simulate(server, options, workload);
  EXPECT_TRUE(figures.ok()) << figures.status();
  return figures.ok() ? *figures : RunFigures();
}

TEST(SimulatorTest, OneRequestAlone) {
  const RunFigures figures = Play(SmallServer(), {Row(0, 100, 5)});
  EXPECT_EQ(figures.finished, 1);
  EXPECT_EQ(figures.steps, 2 + 4) << "prefills of 64 and 36 tokens, the second gives a token";
  EXPECT_NEAR(figures.first_token.mean(), 1.64 * kMs + 1.36 * kMs, 1e-9);
  EXPECT_NEAR(figures.inter_token.mean(), 1.01 * kMs, 1e-9);
  EXPECT_EQ(figures.inter_token.count(), 4);
  EXPECT_NEAR(figures.end_to_end.mean(), 3 * kMs + 4 * 1.01 * kMs, 1e-9);
  EXPECT_NEAR(figures.seconds, figures.end_to_end.mean(), 1e-9);
  EXPECT_EQ(figures.output_tokens, 5);
  EXPECT_EQ(figures.step_tokens, 104);
  EXPECT_NEAR(figures.step_seconds, figures.seconds, 1e-9) << "busy throughout";
  EXPECT_DOUBLE_EQ(figures.kv_peak, 7 / 200.0) << "104 tokens in blocks of 16";
}

TEST(SimulatorTest, TimeBetweenStepsCounts) {
  SimulatedServer server = SmallServer();
  server.overheads.handoff = engine::Samples({0.1 * kMs});
  server.overheads.turnaround = engine::Samples({0.2 * kMs});
  server.overheads.admission = 5 * kMs;
  RunFigures figures = Play(server, {Row(0, 100, 5)});
  EXPECT_NEAR(figures.first_token.mean(), 5 * kMs + 3 * kMs + 2 * 0.1 * kMs + 0.2 * kMs, 1e-9);
  EXPECT_NEAR(figures.inter_token.mean(), 1.01 * kMs + 0.3 * kMs, 1e-9);
  // With two steps in flight, planning is hidden behind the step that runs.
  server.depth = 2;
  figures = Play(server, {Row(0, 100, 5)});
  EXPECT_NEAR(figures.first_token.mean(), 5 * kMs + 3 * kMs + 2 * 0.1 * kMs, 1e-9);
  EXPECT_NEAR(figures.inter_token.mean(), 1.01 * kMs + 0.1 * kMs, 1e-9);
}

TEST(SimulatorTest, ABatchSharesItsSteps) {
  const RunFigures figures = Play(SmallServer(), {Row(0, 8, 3), Row(0, 8, 3)});
  EXPECT_EQ(figures.steps, 3);
  EXPECT_NEAR(figures.first_token.mean(), 1.16 * kMs, 1e-9);
  EXPECT_NEAR(figures.inter_token.mean(), 1.02 * kMs, 1e-9);
  EXPECT_EQ(figures.running_peak, 2);
  EXPECT_NEAR(figures.PerSecond(figures.output_tokens), 6 / 3.2e-3, 1e-3);
}

TEST(SimulatorTest, ALateRequestJoinsAtTheNextStep) {
  // It comes while the first one's prefill runs, and is computed with its first decode.
  const RunFigures figures = Play(SmallServer(), {Row(0, 50, 2), Row(1 * kMs, 10, 2)});
  const double second = 1.5 * kMs + 1.11 * kMs - 1 * kMs;
  EXPECT_NEAR(figures.first_token.mean(), (1.5 * kMs + second) / 2, 1e-9);
  EXPECT_NEAR(figures.inter_token.mean(), (1.11 * kMs + 1.01 * kMs) / 2, 1e-9);
}

TEST(SimulatorTest, AQueueIsSeenAndBounded) {
  SimulatedServer server = SmallServer();
  server.scheduler.running_max = 1;
  server.waiting_max = 1;
  const RunFigures figures = Play(server, {Row(0, 8, 2), Row(0, 8, 2), Row(0, 8, 2)});
  EXPECT_EQ(figures.requests, 3);
  EXPECT_EQ(figures.finished, 2);
  EXPECT_EQ(figures.refused, 1);
  EXPECT_EQ(figures.waiting_peak, 1);
  EXPECT_NEAR(figures.waiting_mean, 0.5, 1e-6);
}

TEST(SimulatorTest, EqualBlocksAreFoundAndOthersAreNot) {
  const auto hits = [](std::vector<int64_t> first, std::vector<int64_t> second) {
    const RunFigures figures =
        Play(SmallServer(), {Row(0, 600, 2, std::move(first)), Row(10, 600, 2, std::move(second))});
    EXPECT_EQ(figures.prefix_query_tokens, 1200);
    return figures.prefix_hit_tokens;
  };
  EXPECT_EQ(hits({1, 2}, {1, 3}), 512);
  EXPECT_EQ(hits({1, 2}, {1, 2}), 599) << "all but the last one";
  EXPECT_EQ(hits({1, 2}, {3, 2}), 0);
  EXPECT_EQ(hits({}, {}), 0);
  EXPECT_EQ(hits({1}, {1}), 512) << "what no id stands for is its own";
}

TEST(SimulatorTest, SpeedMovesArrivalsTogether) {
  EXPECT_NEAR(Play(SmallServer(), {Row(0, 8, 1), Row(10, 8, 1)}).seconds, 10 + 1.08 * kMs, 1e-9);
  EXPECT_NEAR(Play(SmallServer(), {Row(0, 8, 1), Row(10, 8, 1)}, 10).seconds, 1 + 1.08 * kMs, 1e-9);
}

TEST(SimulatorTest, LongRequestsAreClipped) {
  Trace trace;
  trace.requests = {Row(0, 40, 24), Row(0, 40, 25), Row(0, 1000, 10), Row(0, 10, 1000),
                    Row(0, 1000000000, 1000000000)};
  const TraceWorkload workload(trace, 1, 64);
  EXPECT_EQ(workload.clipped(), 4);
  const auto lengths = [&](size_t i) {
    const auto request = workload.Request(i, workload.Arrival(i));
    return std::pair(static_cast<int32_t>(request->prompt.size()), request->stop.max_tokens);
  };
  EXPECT_EQ(lengths(0), std::pair(40, 24));
  EXPECT_EQ(lengths(1), std::pair(39, 25));
  EXPECT_EQ(lengths(2), std::pair(54, 10));
  EXPECT_EQ(lengths(3), std::pair(10, 32));
  EXPECT_EQ(lengths(4), std::pair(32, 32));
}

TEST(SimulatorTest, MemoryThatIsShortShowsInPreemptions) {
  SimulatedServer server = SmallServer();
  server.limits.kv_blocks = 12;
  std::vector<TraceRequest> rows(8, Row(0, 20, 100));
  const RunFigures figures = Play(server, rows);
  EXPECT_EQ(figures.finished, 8);
  EXPECT_EQ(figures.output_tokens, 800);
  EXPECT_GT(figures.preemptions, 0);
  EXPECT_GT(figures.kv_peak, 0.9);
}

TEST(SimulatorTest, TheSameSeedGivesTheSameFigures) {
  SimulatedServer server = SmallServer();
  std::vector<engine::ObservedStep> observed;
  for (int i = 0; i < 200; ++i)
    observed.push_back({{1, 1 + i % 64, 0}, (1 + (i * 37 % 10) / 10.0) * kMs});
  server.time = StepTime(StepCost{1 * kMs, 0.01 * kMs, 0, 0}, observed);
  std::vector<TraceRequest> rows;
  for (int i = 0; i < 50; ++i) rows.push_back(Row(i * 3 * kMs, 10 + i * 7 % 90, 1 + i % 20));
  const auto seconds = [&](uint64_t seed, bool scatter) {
    SimulationOptions options;
    options.seed = seed;
    options.scatter = scatter;
    return Play(server, rows, 1, options).seconds;
  };
  EXPECT_EQ(seconds(1, true), seconds(1, true));
  EXPECT_NE(seconds(1, true), seconds(2, true));
  EXPECT_EQ(seconds(1, false), seconds(2, false));
  EXPECT_NEAR(seconds(1, true), seconds(1, false), 0.1 * seconds(1, false));
}

TEST(SimulatorTest, LimitsThatNoServerHasAreRefused) {
  const TraceWorkload nothing(Trace(), 1, 100);
  const auto error = [&](auto change) -> std::string {
    SimulatedServer server = SmallServer();
    change(&server);
    const auto figures = engine::Simulate(server, {}, nothing);
    return figures.ok() ? "accepted" : engine::Message(figures.status());
  };
  EXPECT_EQ(error([](SimulatedServer*) {}), "accepted");
  EXPECT_EQ(error([](SimulatedServer* s) { s->limits.slots = 0; }),
            "slots = 0 is not in [1, 65536]");
  EXPECT_NE(error([](SimulatedServer* s) { s->limits.kv_blocks = INT32_MAX; }), "accepted");
  EXPECT_NE(error([](SimulatedServer* s) { s->limits.block_size = 0; }), "accepted");
  EXPECT_NE(error([](SimulatedServer* s) { s->limits.context_tokens = 1; }), "accepted");
  EXPECT_NE(error([](SimulatedServer* s) { s->scheduler.step_tokens = 0; }), "accepted");
  EXPECT_NE(error([](SimulatedServer* s) { s->depth = 3; }), "accepted");
}

}  // namespace
}  // namespace sluice::testing
