// What a record tells of its server, and that the same requests, simulated, fare as they did.
#include "engine/simulate/recording.h"

#include <gtest/gtest.h>

#include <random>

#include "engine/simulate/recorded_workload.h"
#include "engine/simulate/simulator.h"
#include "tests/engine/scheduler/scheduler_rig.h"

namespace sluice::testing {
namespace {

using engine::FlightRecorder;
using engine::GenerateRequest;
using engine::Recording;
using engine::RunFigures;

SimulatedWorker::Options Worker() {
  SimulatedWorker::Options options = SmallWorker(60, 100, 60);
  options.step_seconds = 1e-3;
  options.token_seconds = 1e-5;
  return options;
}

// Answers that end in every way but by their callers, when `cancels` is not set; as they come, some
// wait, some share beginnings, some are preempted.
std::string Recorded(int32_t depth, bool cancels) {
  SchedulerRig rig(Worker(), SmallOptions());
  FlightRecorder recorder(64 << 20, Worker().limits, SmallOptions());
  rig.Record(&recorder);
  std::mt19937_64 random(3);
  const auto pick = [&](int32_t low, int32_t high) {
    return low + static_cast<int32_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  uint64_t last = 0;
  for (int32_t step = 0; step < 600; ++step) {
    if (step < 500 && pick(0, 5) == 0) {
      auto request = std::make_shared<GenerateRequest>();
      request->prompt.assign(static_cast<size_t>(pick(1, 70)), pick(0, 9));
      request->sampling.seed = random();
      request->stop.max_tokens = pick(1, 40);
      request->stop.ignore_eos = pick(0, 1) == 0;
      request->n = pick(1, 2);
      request->arrival = rig.Now();
      for (int32_t choice = 0; choice < request->n; ++choice) last = rig.Add(request, choice);
    }
    if (cancels && last > 0 && pick(0, 20) == 0) rig.Cancel(last);
    while (rig.scheduler().steps_in_flight() < depth && rig.Plan()) continue;
    if (rig.scheduler().steps_in_flight() > 0) rig.Commit();
  }
  rig.RunAll(depth);
  EXPECT_TRUE(recorder.complete());
  return recorder.Contents();
}

engine::SimulatedServer ServerOf(const Recording& recording) {
  engine::SimulatedServer server;
  server.limits = recording.limits;
  server.scheduler = recording.scheduler;
  server.depth = recording.depth;
  server.overheads = recording.overheads;
  server.time = engine::StepTime(engine::StepCost{1e-3, 1e-5, 0, 0});
  return server;
}

TEST(RecordingTest, TellsTheServerAndItsStepTimes) {
  for (const int32_t depth : {1, 2}) {
    const auto recording = engine::ReadRecording(Recorded(depth, true), {});
    ASSERT_TRUE(recording.ok()) << recording.status();
    EXPECT_EQ(recording->depth, depth);
    EXPECT_EQ(recording->limits.kv_blocks, 60);
    EXPECT_EQ(recording->scheduler.end_ids, std::vector<int32_t>{kEndId});
    EXPECT_NEAR(recording->overheads.handoff.mean(), 0, 1e-8) << "the virtual clock has none";
    EXPECT_NEAR(recording->overheads.turnaround.mean(), 0, 1e-8);
    const auto cost = engine::FitStepCost(recording->steps);
    ASSERT_TRUE(cost.ok());
    for (const engine::ObservedStep& step : recording->steps)
      EXPECT_NEAR(cost->Seconds(step.work), step.seconds, 1e-7);
  }
}

TEST(RecordingTest, SimulatedAnswersFareAsTheRecordedOnesDid) {
  for (const int32_t depth : {1, 2}) {
    const auto recording = engine::ReadRecording(Recorded(depth, false), {});
    ASSERT_TRUE(recording.ok()) << recording.status();
    const engine::RecordedWorkload workload(*recording, 1, ContextTokens(recording->limits));
    EXPECT_EQ(workload.left_out(), 0);
    const auto simulated = engine::Simulate(ServerOf(*recording), {}, workload);
    ASSERT_TRUE(simulated.ok()) << simulated.status();
    const RunFigures& real = recording->figures;
    EXPECT_GT(real.finished, 50);
    EXPECT_EQ(simulated->finished, real.finished);
    EXPECT_EQ(simulated->steps, real.steps);
    EXPECT_EQ(simulated->step_tokens, real.step_tokens);
    EXPECT_EQ(simulated->output_tokens, real.output_tokens);
    EXPECT_EQ(simulated->prefix_hit_tokens, real.prefix_hit_tokens);
    EXPECT_EQ(simulated->preemptions, real.preemptions);
    EXPECT_EQ(simulated->waiting_peak, real.waiting_peak);
    EXPECT_NEAR(simulated->seconds, real.seconds, 1e-5);
    EXPECT_NEAR(simulated->first_token.mean(), real.first_token.mean(), 1e-6);
    EXPECT_NEAR(simulated->inter_token.mean(), real.inter_token.mean(), 1e-6);
    EXPECT_NEAR(simulated->kv_mean, real.kv_mean, 1e-3);
  }
}

TEST(RecordingTest, AnswersThatWereCutShortAreCutAfterAsManyTokens) {
  const auto recording = engine::ReadRecording(Recorded(1, true), {});
  ASSERT_TRUE(recording.ok()) << recording.status();
  const engine::RecordedWorkload workload(*recording, 1, ContextTokens(recording->limits));
  EXPECT_GT(workload.left_out(), 0) << "cancelled at once";
  const auto simulated = engine::Simulate(ServerOf(*recording), {}, workload);
  ASSERT_TRUE(simulated.ok()) << simulated.status();
  EXPECT_EQ(simulated->output_tokens, recording->figures.output_tokens);
  EXPECT_EQ(simulated->finished, recording->figures.finished);
  EXPECT_EQ(simulated->cut + workload.left_out(), recording->figures.cut);
}

// Callers that wait for an answer before they ask again are slowed by a slow server. (If each
// request came at its recorded time, they would overtake it.)
TEST(RecordingTest, CallersThatWaitForAnAnswerWaitInTheSimulationToo) {
  SchedulerRig rig(Worker(), SmallOptions());
  FlightRecorder recorder(64 << 20, Worker().limits, SmallOptions());
  rig.Record(&recorder);
  for (int32_t i = 0; i < 10; ++i) {
    auto request = std::make_shared<GenerateRequest>();
    request->prompt.assign(20, i);
    request->stop.max_tokens = 30;
    request->stop.ignore_eos = true;
    request->n = 2;
    request->arrival = rig.Now();
    for (int32_t choice = 0; choice < 2; ++choice) rig.Add(request, choice);
    rig.RunAll(1);
  }
  const auto recording = engine::ReadRecording(recorder.Contents(), {});
  ASSERT_TRUE(recording.ok()) << recording.status();
  const int32_t context = ContextTokens(recording->limits);
  const auto play = [&](double think_time_max, double slowness) {
    const engine::RecordedWorkload workload(*recording, 1, context, think_time_max);
    EXPECT_EQ(workload.following(), think_time_max > 0 ? 18 : 0) << "all but the first request's";
    engine::SimulatedServer server = ServerOf(*recording);
    server.time = engine::StepTime(engine::StepCost{slowness * 1e-3, slowness * 1e-5, 0, 0});
    const auto figures = engine::Simulate(server, {}, workload);
    EXPECT_TRUE(figures.ok()) << figures.status();
    return figures.ok() ? *figures : RunFigures();
  };
  const double recorded = recording->figures.seconds;
  EXPECT_EQ(play(1e-3, 1).steps, recording->figures.steps);
  EXPECT_NEAR(play(1e-3, 1).seconds, recorded, 1e-6);
  EXPECT_EQ(play(1e-3, 3).running_peak, 2);
  EXPECT_NEAR(play(1e-3, 3).seconds, 3 * recorded, 1e-3);
  EXPECT_GT(play(0, 3).running_peak, 2);
  EXPECT_LT(play(0, 3).seconds, 2.9 * recorded) << "more of them at once";
}

TEST(RecordingTest, PromptsThatDoNotFitAreLeftOut) {
  const auto recording = engine::ReadRecording(Recorded(1, false), {});
  ASSERT_TRUE(recording.ok()) << recording.status();
  const engine::RecordedWorkload workload(*recording, 1, 20);
  EXPECT_GT(workload.left_out(), 20);
  for (size_t i = 0; i < workload.size(); ++i)
    EXPECT_LT(workload.Request(i, workload.Arrival(i))->prompt.size(), 20u);
}

TEST(RecordingTest, RefusesWhatIsNoRecordAndWhatIsCutOff) {
  EXPECT_FALSE(engine::ReadRecording("", {}).ok());
  EXPECT_FALSE(engine::ReadRecording("timestamp,x", {}).ok());
  const std::string whole = Recorded(1, true);
  EXPECT_FALSE(engine::ReadRecording(whole.substr(0, whole.size() - 1), {}).ok());
  std::mt19937_64 random(5);
  for (int i = 0; i < 200; ++i) {  // any answer will do
    std::string broken = whole;
    broken[random() % broken.size()] = static_cast<char>(random());
    (void)engine::ReadRecording(broken, {});
  }
}

}  // namespace
}  // namespace sluice::testing
