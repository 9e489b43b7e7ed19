// The Engine under pressure: full queues, cancellation, draining, failures, slow readers. Every
// answer ends exactly once.
#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <latch>
#include <random>
#include <thread>

#include "engine/record/replay.h"
#include "tests/engine/engine_fixture.h"

namespace sluice::testing {
namespace {

using engine::EngineOptions;
using engine::FinishReason;

// Holds the engine thread inside a step until it is opened.
class Gate {
 public:
  void Open() {
    std::lock_guard lock(mu_);
    open_ = true;
    changed_.notify_all();
  }
  void Close() {
    std::lock_guard lock(mu_);
    open_ = false;
  }
  // The hook for SimulatedWorker::Options::before_step.
  std::function<void(uint64_t)> Hook() {
    return [this](uint64_t step) {
      std::unique_lock lock(mu_);
      reached_ = step;
      held_ = !open_;
      changed_.notify_all();
      changed_.wait(lock, [this] { return open_; });
      held_ = false;
    };
  }
  void WaitUntilReached(uint64_t step) {
    std::unique_lock lock(mu_);
    changed_.wait(lock, [&] { return reached_ >= step; });
  }
  void WaitUntilHeld() {
    std::unique_lock lock(mu_);
    changed_.wait(lock, [this] { return held_; });
  }

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  uint64_t reached_ = 0;
  bool open_ = false;
  bool held_ = false;
};

std::shared_ptr<engine::GenerateRequest> Endless(std::string id) {
  auto request = MakeRequest(std::move(id), Bytes("q"), 1000000);
  request->stop.ignore_eos = true;
  return request;
}

// What could not be begun in time is refused before anything is computed for it.
TEST(EngineLifeTest, ARequestThatWouldWaitTooLongIsRefused) {
  auto worker = SimulatedEngine::DefaultWorker();
  worker.limits.context_tokens = 16384;
  // A device that takes a while, so that the seat is kept for longer than anybody may wait.
  worker.before_step = [](uint64_t) { std::this_thread::sleep_for(std::chrono::milliseconds(1)); };
  EngineOptions options;
  options.running_max = 1;
  options.wait_max = std::chrono::milliseconds(1);
  SimulatedEngine simulated(worker, options);
  // Teaches how long a seat is kept.
  auto first = std::make_shared<RecordingSink>(1);
  ASSERT_TRUE(simulated.engine->Submit(MakeRequest("first", Bytes("q"), 20), first).ok());
  first->Wait();
  auto running = std::make_shared<RecordingSink>(1);
  ASSERT_TRUE(simulated.engine->Submit(Endless("running"), running).ok());
  running->WaitForChunks(1);
  auto refused = std::make_shared<RecordingSink>(1);
  const absl::Status status = simulated.engine->Submit(MakeRequest("late", Bytes("q"), 5), refused);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_GE(simulated.engine->AppointRetry(1), 1);
  auto expired = MakeRequest("expired", Bytes("q"), 5);
  expired->deadline = engine::Clock::now() - std::chrono::seconds(1);
  EXPECT_EQ(simulated.engine->Submit(expired, refused).code(), absl::StatusCode::kDeadlineExceeded);
  simulated.engine->Cancel("running");
  EXPECT_TRUE(simulated.engine->Drain(std::chrono::seconds(60)));
}

// An engine that knows that a token of a prompt takes 10 ms, and whose thread is held in a step.
struct HeldEngine {
  explicit HeldEngine(EngineOptions options) : simulated(Worker(&gate), options) {
    gate.Open();
    auto teacher = std::make_shared<RecordingSink>(1);
    EXPECT_TRUE(Submit("teacher", 200, 1, teacher).ok());
    teacher->Wait();
    gate.Close();
    EXPECT_TRUE(Submit("running", 1, 50, sink).ok());
    gate.WaitUntilHeld();
  }
  ~HeldEngine() {
    gate.Open();
    for (const char* id : {"running", "a", "b", "c"}) simulated.engine->Cancel(id);
    EXPECT_TRUE(simulated.engine->Drain(std::chrono::seconds(60)));
  }

  static SimulatedWorker::Options Worker(Gate* gate) {
    auto worker = SimulatedEngine::DefaultWorker();
    worker.limits.context_tokens = 16384;
    worker.step_seconds = 0;
    worker.token_seconds = 0.01;
    worker.before_step = gate->Hook();
    return worker;
  }
  // A prompt that no other begins like. `deadline` 0: none.
  absl::Status Submit(const std::string& id, size_t prompt_tokens, int32_t max_tokens,
                      std::shared_ptr<RecordingSink> to, std::chrono::seconds deadline = {},
                      const std::string& tenant = "") {
    auto request = MakeRequest(id, Bytes(id + std::string(prompt_tokens, 'x')), max_tokens);
    request->prompt.resize(prompt_tokens);
    request->stop.ignore_eos = true;
    if (deadline.count() > 0) request->deadline = engine::Clock::now() + deadline;
    request->tenant = tenant;
    return simulated.engine->Submit(std::move(request), std::move(to));
  }

  Gate gate;
  SimulatedEngine simulated;
  std::shared_ptr<RecordingSink> sink = std::make_shared<RecordingSink>(1);
};

TEST(EngineLifeTest, WhatTheEngineHasNotTakenInYetIsWaitedForToo) {
  EngineOptions options;
  options.wait_max = std::chrono::seconds(100);
  HeldEngine held(options);
  EXPECT_TRUE(held.Submit("a", 15000, 1, held.sink).ok()) << "nothing is before it";
  const absl::Status status = held.Submit("b", 1, 1, held.sink);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << "150 s are";
  EXPECT_NE(engine::Message(status).find("at most 100 s"), std::string::npos) << status;
}

TEST(EngineLifeTest, ADeadlineLeavesTimeForTheRequestItself) {
  HeldEngine held{EngineOptions()};
  EXPECT_TRUE(held.Submit("a", 15000, 1, held.sink, std::chrono::seconds(100)).ok())
      << "with nothing before it no estimate refuses it";
  EXPECT_TRUE(held.Submit("b", 1000, 1, held.sink, std::chrono::seconds(200)).ok());
  EXPECT_EQ(held.Submit("c", 6000, 1, held.sink, std::chrono::seconds(200)).code(),
            absl::StatusCode::kResourceExhausted)
      << "160 s before it, 60 s of its own";
}

// What a flood has before it is not what another tenant would wait for.
TEST(EngineLifeTest, ATenantWaitsForWhatIsItsOwn) {
  EngineOptions options;
  options.running_max = 2;
  options.wait_max = std::chrono::seconds(100);
  HeldEngine held(options);
  for (int i = 0; i < 11; ++i)
    EXPECT_TRUE(held.Submit("a", 1000, 1, held.sink, {}, "flood").ok()) << i;
  EXPECT_EQ(held.Submit("b", 1000, 1, held.sink, {}, "flood").code(),
            absl::StatusCode::kResourceExhausted)
      << "110 s are before it";
  EXPECT_TRUE(held.Submit("c", 1000, 1, held.sink, {}, "light").ok()) << "110 * 3 / 11";
}

TEST(EngineLifeTest, ATenantHasItsOwnLimit) {
  Gate gate;
  auto worker = SimulatedEngine::DefaultWorker();
  worker.before_step = gate.Hook();
  EngineOptions options;
  options.tenants["small"].open_max = 1;
  SimulatedEngine simulated(worker, options);
  auto sink = std::make_shared<RecordingSink>(1);
  auto request = MakeRequest("a", Bytes("q"), 5);
  request->tenant = "small";
  ASSERT_TRUE(simulated.engine->Submit(request, sink).ok());
  auto second = MakeRequest("b", Bytes("q"), 5);
  second->tenant = "small";
  const absl::Status status = simulated.engine->Submit(second, std::make_shared<RecordingSink>(1));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(engine::Message(status).find("tenant 'small'"), std::string::npos) << status;
  auto other = std::make_shared<RecordingSink>(1);
  EXPECT_TRUE(simulated.engine->Submit(MakeRequest("c", Bytes("q"), 5), other).ok());
  gate.Open();
  sink->Wait();
  other->Wait();
  EXPECT_TRUE(simulated.engine->Drain(std::chrono::seconds(60)));
}

TEST(EngineLifeTest, AFullQueueRefusesAndSaysHowFull) {
  Gate gate;
  auto worker = SimulatedEngine::DefaultWorker();
  worker.before_step = gate.Hook();
  EngineOptions options;
  options.running_max = 1;
  options.waiting_max = 2;
  SimulatedEngine simulated(worker, options);
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int i = 0; i < 3; ++i) {
    sinks.push_back(std::make_shared<RecordingSink>(1));
    ASSERT_TRUE(simulated.engine->Submit(MakeRequest("a", Bytes("q"), 5), sinks.back()).ok());
  }
  const auto refused =
      simulated.engine->Submit(MakeRequest("b", Bytes("q"), 5), std::make_shared<RecordingSink>(1));
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(engine::Message(refused).find("3"), std::string::npos);
  EXPECT_GE(simulated.engine->AppointRetry(1), 1);
  gate.Open();
  for (const auto& sink : sinks) EXPECT_EQ(sink->Wait()[0].ends, 1);
}

TEST(EngineLifeTest, ARequestForMoreAnswersThanThereArePlacesIsRefusedWhole) {
  EngineOptions options;
  options.running_max = 2;
  options.waiting_max = 1;
  SimulatedEngine simulated(SimulatedEngine::DefaultWorker(), options);
  auto request = MakeRequest("a", Bytes("q"), 5);
  request->n = 4;
  EXPECT_EQ(simulated.engine->Submit(request, std::make_shared<RecordingSink>(4)).code(),
            absl::StatusCode::kResourceExhausted);
  request->n = 3;
  auto sink = std::make_shared<RecordingSink>(3);
  ASSERT_TRUE(simulated.engine->Submit(request, sink).ok());
  for (const auto& answer : sink->Wait()) EXPECT_EQ(answer.ends, 1);
}

TEST(EngineLifeTest, CancellingEndsRunningAndWaitingAnswersWithinAStep) {
  EngineOptions options;
  options.running_max = 1;
  SimulatedEngine simulated(SimulatedEngine::DefaultWorker(), options);
  auto running = std::make_shared<RecordingSink>(1);
  auto waiting = std::make_shared<RecordingSink>(1);
  auto worker_busy = Endless("running");
  ASSERT_TRUE(simulated.engine->Submit(worker_busy, running).ok());
  ASSERT_TRUE(simulated.engine->Submit(Endless("waiting"), waiting).ok());
  running->WaitForChunks(1);
  simulated.engine->Cancel("waiting");
  EXPECT_EQ(waiting->Wait()[0].ends, 1);
  simulated.engine->Cancel("running");
  simulated.engine->Cancel("running");
  simulated.engine->Cancel("unknown");
  EXPECT_EQ(running->Wait()[0].ends, 1);
  EXPECT_TRUE(simulated.engine->Drain(std::chrono::seconds(60)));
  EXPECT_EQ(simulated.engine->stats().kv_blocks_used, 0);
  simulated.engine->Cancel("running");
}

TEST(EngineLifeTest, ACancelledStepInFlightGivesNoMoreTokens) {
  Gate gate;
  auto worker = SimulatedEngine::DefaultWorker();
  worker.before_step = gate.Hook();
  SimulatedEngine simulated(worker);
  auto sink = std::make_shared<RecordingSink>(1);
  ASSERT_TRUE(simulated.engine->Submit(Endless("a"), sink).ok());
  gate.WaitUntilReached(1);
  simulated.engine->Cancel("a");
  gate.Open();
  const auto& answer = sink->Wait()[0];
  EXPECT_EQ(answer.last().finish, FinishReason::kCancelled);
  EXPECT_LE(answer.tokens.size(), 1u) << "the step in flight may still give its token";
  EXPECT_TRUE(simulated.engine->Drain(std::chrono::seconds(60)));
  EXPECT_EQ(simulated.engine->stats().steps, 1);
  EXPECT_EQ(simulated.engine->stats().kv_blocks_used, 0);
}

TEST(EngineLifeTest, DrainLetsFinishWhatRunsAndAcceptsNothing) {
  SimulatedEngine simulated;
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int i = 0; i < 20; ++i) {
    sinks.push_back(std::make_shared<RecordingSink>(1));
    auto request = MakeRequest("a", Bytes("q"), 50);
    request->stop.ignore_eos = true;
    ASSERT_TRUE(simulated.engine->Submit(request, sinks.back()).ok());
  }
  EXPECT_TRUE(simulated.engine->Drain(std::chrono::seconds(60)));
  for (const auto& sink : sinks) EXPECT_EQ(sink->Wait()[0].tokens.size(), 50u);
  const auto refused =
      simulated.engine->Submit(MakeRequest("b", Bytes("q"), 5), std::make_shared<RecordingSink>(1));
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
}

TEST(EngineLifeTest, DrainCancelsWhatOutlastsItsGrace) {
  Gate gate;
  auto worker = SimulatedEngine::DefaultWorker();
  worker.before_step = gate.Hook();
  worker.limits.context_tokens = 10000;
  worker.limits.kv_blocks = 4096;
  EngineOptions options;
  options.running_max = 1;
  SimulatedEngine simulated(worker, options);
  auto running = std::make_shared<RecordingSink>(1);
  auto waiting = std::make_shared<RecordingSink>(1);
  ASSERT_TRUE(simulated.engine->Submit(Endless("a"), running).ok());
  ASSERT_TRUE(simulated.engine->Submit(Endless("b"), waiting).ok());
  gate.WaitUntilReached(1);
  std::thread drain([&] { EXPECT_FALSE(simulated.engine->Drain(std::chrono::milliseconds(0))); });
  // The cancellation is in the inbox or about to be; either way the step must not keep it.
  gate.Open();
  EXPECT_EQ(running->Wait()[0].last().finish, FinishReason::kCancelled);
  EXPECT_EQ(waiting->Wait()[0].last().finish, FinishReason::kCancelled);
  drain.join();
  EXPECT_EQ(simulated.engine->stats().kv_blocks_used, 0);
}

TEST(EngineLifeTest, TheDestructorEndsWhatStillRuns) {
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  {
    auto worker = SimulatedEngine::DefaultWorker();
    worker.limits.context_tokens = 16384;  // answers that would take seconds
    worker.limits.kv_blocks = 16384;
    EngineOptions options;
    options.running_max = 2;
    SimulatedEngine simulated(worker, options);
    for (int i = 0; i < 6; ++i) {
      sinks.push_back(std::make_shared<RecordingSink>(1));
      ASSERT_TRUE(simulated.engine->Submit(Endless("a" + std::to_string(i)), sinks.back()).ok());
    }
    sinks[0]->WaitForChunks(1);
  }
  for (const auto& sink : sinks) EXPECT_EQ(sink->Wait()[0].ends, 1);
  EXPECT_EQ(sinks[5]->Wait()[0].last().finish, FinishReason::kCancelled);
}

TEST(EngineLifeTest, AFailedExecutorEndsAllWithAnErrorAndThenIsFatal) {
  Gate gate;  // or the executor could fail before all are in
  auto worker = SimulatedEngine::DefaultWorker();
  worker.before_step = gate.Hook();
  worker.fail_at_step = 5;
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int i = 0; i < 6; ++i) sinks.push_back(std::make_shared<RecordingSink>(1));
  std::latch fatal(1);
  std::string message;
  int ended_before_fatal = 0;
  EngineOptions options;
  options.running_max = 2;
  SimulatedEngine simulated(worker, options, nullptr, [&](const absl::Status& status) {
    message = engine::Message(status);
    for (const auto& sink : sinks) ended_before_fatal += sink->Wait()[0].ends;
    fatal.count_down();
  });
  for (const auto& sink : sinks) ASSERT_TRUE(simulated.engine->Submit(Endless("a"), sink).ok());
  gate.Open();
  fatal.wait();
  EXPECT_EQ(ended_before_fatal, 6);
  for (const auto& sink : sinks) {
    const auto& answer = sink->Wait()[0];
    EXPECT_EQ(answer.ends, 1);
    EXPECT_EQ(answer.last().finish, FinishReason::kError);
    EXPECT_NE(answer.last().error.find("device lost at step 5"), std::string::npos);
  }
  EXPECT_NE(message.find("device lost at step 5"), std::string::npos);
  EXPECT_EQ(simulated.engine->Submit(Endless("b"), std::make_shared<RecordingSink>(1)).code(),
            absl::StatusCode::kUnavailable);
  EXPECT_TRUE(simulated.engine->Drain(std::chrono::seconds(60))) << "nothing is left";
}

// A sink that does what no sink may: it waits.
class StuckSink : public RecordingSink {
 public:
  explicit StuckSink(std::latch* release) : RecordingSink(1), release_(release) {}
  void OnChunk(engine::OutputChunk chunk) override {
    release_->wait();
    RecordingSink::OnChunk(std::move(chunk));
  }

 private:
  std::latch* release_;
};

TEST(EngineLifeTest, AStuckReaderStopsNoStepAndGetsAllItsTextAtOnce) {
  std::atomic<uint64_t> steps{0};
  auto worker = SimulatedEngine::DefaultWorker();
  worker.scripts['q'] = Bytes(std::string(200, 'x'));
  worker.before_step = [&](uint64_t step) {
    steps = step;
    steps.notify_all();
  };
  SimulatedEngine simulated(worker);
  std::latch release(1);
  auto stuck = std::make_shared<StuckSink>(&release);
  ASSERT_TRUE(simulated.engine->Submit(MakeRequest("a", Bytes("q"), 200), stuck).ok());
  for (uint64_t seen = steps; seen < 200; seen = steps) steps.wait(seen);
  release.count_down();
  const auto& answer = stuck->Wait()[0];
  EXPECT_EQ(answer.text, std::string(200, 'x'));
  EXPECT_EQ(answer.ends, 1);
  EXPECT_LE(answer.chunks.size(), 4u) << "what piled up comes as one chunk";
}

// Sinks may call the engine from the output thread.
class CancellingSink : public RecordingSink {
 public:
  CancellingSink(engine::Engine* engine, std::string id)
      : RecordingSink(1), engine_(engine), id_(std::move(id)) {}
  void OnChunk(engine::OutputChunk chunk) override {
    engine_->Cancel(id_);
    RecordingSink::OnChunk(std::move(chunk));
  }

 private:
  engine::Engine* engine_;
  std::string id_;
};

TEST(EngineLifeTest, ASinkMayCancelItsRequest) {
  auto worker = SimulatedEngine::DefaultWorker();
  worker.limits.context_tokens = 16384;
  SimulatedEngine simulated(worker);
  auto sink = std::make_shared<CancellingSink>(simulated.engine.get(), "a");
  ASSERT_TRUE(simulated.engine->Submit(Endless("a"), sink).ok());
  EXPECT_EQ(sink->Wait()[0].ends, 1);
  EXPECT_TRUE(simulated.engine->Drain(std::chrono::seconds(60)));
}

class EngineStormTest : public ::testing::TestWithParam<int32_t> {};

// And what was planned in it is planned again from its record.
TEST_P(EngineStormTest, CancelsFromManyThreadsLoseNothing) {
  constexpr int kThreads = 4;
  constexpr int kRequests = 150;
  auto worker = SimulatedEngine::DefaultWorker();
  worker.limits.kv_blocks = 80;  // 320 tokens: preemption happens all the time
  EngineOptions options;
  options.running_max = 16;
  options.step_tokens = 64;
  options.steps_in_flight = GetParam();
  options.record_bytes = 256 << 20;
  SimulatedEngine simulated(worker, options);
  std::vector<std::shared_ptr<RecordingSink>> sinks(kThreads * kRequests);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<uint32_t>(t));
      for (int i = 0; i < kRequests; ++i) {
        const std::string id = std::to_string(t) + "." + std::to_string(i);
        auto request = MakeRequest(id, Bytes("prompt " + id), 40);
        request->n = 1 + static_cast<int32_t>(random() % 2);
        request->sampling.seed = random();
        if (random() % 2 == 0) request->stop.strings = {"e", " w1"};
        auto sink = std::make_shared<RecordingSink>(request->n);
        sinks[static_cast<size_t>(t * kRequests + i)] = sink;
        while (!simulated.engine->Submit(request, sink).ok()) std::this_thread::yield();
        if (random() % 2 == 0) {
          if (random() % 2 == 0) sink->WaitForChunks(1 + static_cast<int>(random() % 5));
          simulated.engine->Cancel(id);
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(simulated.engine->Drain(std::chrono::seconds(60)));
  for (const auto& sink : sinks) {
    for (const auto& answer : sink->Wait()) {
      EXPECT_EQ(answer.ends, 1);
      EXPECT_NE(answer.chunks.back().finish, FinishReason::kNone);
      EXPECT_NE(answer.chunks.back().finish, FinishReason::kError) << answer.chunks.back().error;
    }
  }
  // A step planned ahead may still run for answers that have ended.
  const auto give_up = engine::Clock::now() + std::chrono::seconds(60);
  while (simulated.engine->stats().kv_blocks_used > 0 && engine::Clock::now() < give_up)
    std::this_thread::yield();
  const auto stats = simulated.engine->stats();
  EXPECT_EQ(stats.kv_blocks_used, 0);
  EXPECT_EQ(stats.requests_running + stats.requests_waiting, 0);

  const std::string path = ::testing::TempDir() + "storm." + std::to_string(getpid());
  ASSERT_TRUE(simulated.engine->WriteFlightRecord(path).ok());
  std::ifstream file(path, std::ios::binary);
  const std::string record(std::istreambuf_iterator<char>(file), {});
  std::remove(path.c_str());
  const auto report = engine::Replay(record);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->different, 0) << report->first_difference;
  EXPECT_EQ(report->steps, stats.steps);
  EXPECT_GT(report->sequences, kThreads * kRequests - 1);
  EXPECT_FALSE(simulated.engine->WriteFlightRecord("/nonexistent/file").ok());
}

INSTANTIATE_TEST_SUITE_P(StepsInFlight, EngineStormTest, ::testing::Values(1, 2));

}  // namespace
}  // namespace sluice::testing
