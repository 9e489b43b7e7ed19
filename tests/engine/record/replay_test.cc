// What was recorded is planned again exactly; what is no record is told so.
#include "engine/record/replay.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/engine/scheduler/scheduler_rig.h"

namespace sluice::testing {
namespace {

using engine::FlightRecorder;
using engine::GenerateRequest;

struct RigSetup {
  SimulatedWorker::Options worker;
  engine::Scheduler::Options scheduler;
};

RigSetup MakeSetup() {
  RigSetup setup;
  setup.worker.limits = {6, 48, 40, 4, 100, 60};
  setup.scheduler.running_max = 6;
  setup.scheduler.step_tokens = 48;
  setup.scheduler.end_ids = {kEndId};
  setup.scheduler.inter_token_target = 2e-3;
  setup.scheduler.line.patience_seconds = 0.05;
  setup.scheduler.line.tenants["a"].weight = 2;
  setup.scheduler.line.tenants["b"].running_max = 2;
  return setup;
}

// A few hundred steps of everything that can happen.
void Drive(uint64_t seed, int32_t depth, SchedulerRig* rig) {
  std::mt19937_64 random(seed);
  const auto pick = [&](int32_t low, int32_t high) {
    return low + static_cast<int32_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  std::vector<uint64_t> ids;
  for (int32_t step = 0; step < 400; ++step) {
    if (pick(0, 3) == 0) {
      auto request = std::make_shared<GenerateRequest>();
      request->prompt.assign(static_cast<size_t>(pick(1, 60)), pick(0, 3));
      request->sampling.seed = random();
      if (pick(0, 3) == 0) request->sampling.repetition_penalty = 2;
      request->stop.max_tokens = pick(1, 30);
      request->stop.min_tokens = pick(0, 2);
      request->stop.ignore_eos = pick(0, 1) == 0;
      request->stop.token_ids = {pick(0, 59)};
      request->tenant = std::string(1, static_cast<char>('a' + pick(0, 2)));
      request->priority = pick(-1, 1);
      request->cache_salt = pick(0, 5) == 0 ? "salt" : "";
      request->arrival = rig->Now();
      if (pick(0, 4) == 0) request->deadline = rig->Now() + std::chrono::milliseconds(pick(0, 60));
      request->n = pick(1, 2);
      for (int32_t choice = 0; choice < request->n; ++choice)
        ids.push_back(rig->Add(request, choice));
    }
    if (!ids.empty() && pick(0, 9) == 0)
      rig->Cancel(ids[static_cast<size_t>(pick(0, static_cast<int32_t>(ids.size()) - 1))]);
    while (rig->scheduler().steps_in_flight() < depth && rig->Plan()) continue;
    if (rig->scheduler().steps_in_flight() > 0) rig->Commit();
    ASSERT_EQ(rig->Check(), "");
  }
}

std::string Recorded(uint64_t seed, int32_t depth, int64_t* steps) {
  const RigSetup setup = MakeSetup();
  SchedulerRig rig(setup.worker, setup.scheduler);
  FlightRecorder recorder(64 << 20, setup.worker.limits, setup.scheduler);
  rig.Record(&recorder);
  Drive(seed, depth, &rig);
  *steps = rig.scheduler().stats().steps;
  EXPECT_TRUE(recorder.complete());
  return recorder.Contents();
}

TEST(ReplayTest, ReproducesEveryPlan) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    int64_t steps = 0;
    const std::string record = Recorded(seed, 1 + static_cast<int32_t>(seed % 2), &steps);
    const auto report = engine::Replay(record);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->different, 0) << "seed " << seed << ": " << report->first_difference;
    EXPECT_EQ(report->steps, steps);
    EXPECT_GT(report->sequences, 20);
  }
}

TEST(ReplayTest, NamesTheFirstPlanThatDiffers) {
  int64_t steps = 0;
  std::string record = Recorded(5, 1, &steps);
  // The digest is the last number of a plan's record: a bit of one of them.
  size_t at = engine::record::kMagic.size();
  for (int plans = 0; plans < 100;) {
    engine::record::Reader in(std::string_view(record).substr(at + 1));
    const size_t before = in.left();
    const uint64_t length = in.Unsigned();
    const size_t begin = at + 1 + (before - in.left());
    if (record[at] == 'P' && ++plans == 100) record[begin + length - 2] ^= 1;
    at = begin + length;
  }
  const auto report = engine::Replay(record);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->different, 1);
  EXPECT_NE(report->first_difference.find("step "), std::string::npos);
}

TEST(ReplayTest, MemoryIsBoundedAndAGapIsTold) {
  const RigSetup setup = MakeSetup();
  SchedulerRig rig(setup.worker, setup.scheduler);
  FlightRecorder recorder(300 << 10, setup.worker.limits, setup.scheduler);
  rig.Record(&recorder);
  for (uint64_t seed = 1; seed < 80 && recorder.complete(); ++seed) Drive(seed, 1, &rig);
  ASSERT_FALSE(recorder.complete());
  EXPECT_LE(recorder.bytes(), (300u << 10) + (257u << 10));
  const auto report = engine::Replay(recorder.Contents());
  ASSERT_FALSE(report.ok());
  EXPECT_NE(engine::Message(report.status()).find("beginning was dropped"), std::string::npos);
}

TEST(ReplayTest, SurvivesWhatIsNoRecord) {
  int64_t steps = 0;
  const std::string record = Recorded(3, 2, &steps);
  EXPECT_FALSE(engine::Replay("").ok());
  EXPECT_FALSE(engine::Replay("GGUF").ok());
  EXPECT_FALSE(engine::Replay(engine::record::kMagic).ok());
  for (size_t cut = 20; cut < record.size(); cut += 997) {
    (void)engine::Replay(std::string_view(record).substr(0, cut));
  }
  std::mt19937_64 random(9);
  for (int i = 0; i < 300; ++i) {
    std::string bad = record;
    // Not in the options: sizes that a scheduler may have are not checked against memory here.
    for (int k = 0; k < 3; ++k)
      bad[120 + random() % (bad.size() - 120)] = static_cast<char>(random());
    (void)engine::Replay(bad);
  }
}

}  // namespace
}  // namespace sluice::testing
