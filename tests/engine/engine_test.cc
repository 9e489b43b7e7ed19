// What the Engine promises its callers, on real threads over a simulated worker.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <atomic>

#include "tests/engine/engine_fixture.h"

namespace sluice::testing {
namespace {

using engine::FinishReason;
using engine::GenerateRequest;

// Scripts by the prompt's first byte.
SimulatedWorker::Options Scripted(std::map<char, std::string> texts) {
  auto options = SimulatedEngine::DefaultWorker();
  for (const auto& [first, text] : texts) options.scripts[first] = Bytes(text);
  return options;
}

RecordingSink::Answer RunOne(SimulatedEngine& simulated, std::shared_ptr<GenerateRequest> request) {
  auto sink = std::make_shared<RecordingSink>(1);
  const absl::Status status = simulated.engine->Submit(std::move(request), sink);
  EXPECT_TRUE(status.ok()) << status;
  const RecordingSink::Answer answer = sink->Wait()[0];
  EXPECT_EQ(answer.ends, 1);
  return answer;
}

TEST(EngineTest, ARequestBecomesText) {
  auto worker = Scripted({{'q', "Hello, world"}});
  worker.scripts['q'].push_back(kEndToken);
  SimulatedEngine simulated(worker);
  const auto answer = RunOne(simulated, MakeRequest("a", Bytes("question"), 100));
  EXPECT_EQ(answer.text, "Hello, world");
  EXPECT_EQ(answer.tokens, worker.scripts['q']);
  EXPECT_EQ(answer.last().finish, FinishReason::kStop);
  EXPECT_EQ(answer.last().generated_tokens, 13);
  EXPECT_EQ(answer.last().stop_reason.index(), 0u);
  const auto& times = answer.last().times;
  EXPECT_LE(times.arrival, times.scheduled);
  EXPECT_LE(times.scheduled, times.first_token);
  EXPECT_LT(times.first_token, times.last_token);
}

TEST(EngineTest, AnEndTokensTextIsHiddenAlsoWhenControlTokensAreShown) {
  auto worker = SimulatedEngine::DefaultWorker();
  worker.scripts['q'] = {'o', 'k', kEndToken};
  SimulatedEngine simulated(worker);
  auto request = MakeRequest("a", Bytes("q"), 100);
  request->stop.skip_special_tokens = false;
  EXPECT_EQ(RunOne(simulated, request).text, "ok");
}

TEST(EngineTest, AStopTokenIsNamed) {
  SimulatedEngine simulated(Scripted({{'q', "one, two; three"}}));
  auto request = MakeRequest("a", Bytes("q"), 100);
  request->stop.token_ids = {';'};
  const auto answer = RunOne(simulated, request);
  EXPECT_EQ(answer.text, "one, two");
  EXPECT_EQ(answer.last().finish, FinishReason::kStop);
  ASSERT_EQ(answer.last().stop_reason.index(), 1u);
  EXPECT_EQ(std::get<int32_t>(answer.last().stop_reason), ';');
  EXPECT_EQ(answer.last().generated_tokens, 9);
}

TEST(EngineTest, AStopStringEndsTheAnswerAndTheSequence) {
  SimulatedEngine simulated(Scripted({{'q', "one, two; three" + std::string(150, '.')}}));
  auto request = MakeRequest("a", Bytes("q"), 200);
  request->stop.strings = {"; th", "zzz"};
  const auto answer = RunOne(simulated, request);
  EXPECT_EQ(answer.text, "one, two");
  EXPECT_EQ(answer.last().finish, FinishReason::kStop);
  ASSERT_EQ(answer.last().stop_reason.index(), 2u);
  EXPECT_EQ(std::get<std::string>(answer.last().stop_reason), "; th");
  EXPECT_EQ(answer.last().generated_tokens, 12) << "up to the token that completed the match";
  EXPECT_EQ(answer.tokens.size(), 12u);
  EXPECT_TRUE(simulated.engine->Drain(std::chrono::seconds(60)));
  EXPECT_EQ(simulated.engine->stats().kv_blocks_used, 0);
}

TEST(EngineTest, AStopStringThatTheLastTokenCompletesIsAStop) {
  SimulatedEngine simulated(Scripted({{'q', "abcdef"}}));
  auto request = MakeRequest("a", Bytes("q"), 4);
  request->stop.strings = {"cd"};
  request->stop.include_stop_string = true;
  const auto answer = RunOne(simulated, request);
  EXPECT_EQ(answer.text, "abcd");
  EXPECT_EQ(answer.last().finish, FinishReason::kStop);
}

TEST(EngineTest, TextHeldBackComesWithTheEnd) {
  SimulatedEngine simulated(Scripted({{'q', "abcdef"}}));
  auto request = MakeRequest("a", Bytes("q"), 4);
  request->stop.strings = {"cdX"};
  const auto answer = RunOne(simulated, request);
  EXPECT_EQ(answer.text, "abcd");
  EXPECT_EQ(answer.last().finish, FinishReason::kLength);
}

TEST(EngineTest, MaxTokensBeyondTheContextAreCutByTheContext) {
  SimulatedEngine simulated;
  auto request = MakeRequest("a", Bytes("0123456789"), 1000000);
  request->stop.ignore_eos = true;
  const auto answer = RunOne(simulated, request);
  EXPECT_EQ(answer.last().finish, FinishReason::kLength);
  EXPECT_EQ(answer.last().generated_tokens, 256 - 10);
}

TEST(EngineTest, EachOfNAnswersIsItsOwn) {
  const auto worker = SimulatedEngine::DefaultWorker();
  SimulatedEngine simulated(worker);
  auto request = MakeRequest("a", Bytes("q"), 20);
  request->n = 5;
  request->sampling.seed = 99;
  auto sink = std::make_shared<RecordingSink>(5);
  ASSERT_TRUE(simulated.engine->Submit(request, sink).ok());
  const auto& answers = sink->Wait();
  for (int32_t choice = 0; choice < 5; ++choice) {
    const auto& answer = answers[static_cast<size_t>(choice)];
    EXPECT_EQ(answer.ends, 1);
    EXPECT_EQ(answer.tokens,
              SimulatedWorker::ExpectedTokens(*request, choice, {kEndToken}, 256, worker));
  }
  EXPECT_NE(answers[0].tokens, answers[1].tokens);
}

TEST(EngineTest, BadRequestsAreRefusedAtOnce) {
  SimulatedEngine simulated;
  auto sink = std::make_shared<RecordingSink>(1);
  auto request = MakeRequest("a", Bytes("q"), 20);
  request->sampling.temperature = 3;
  EXPECT_EQ(engine::Message(simulated.engine->Submit(request, sink)),
            "temperature: 3 is not in [0, 2]");
  auto too_long = MakeRequest("a", std::vector<int32_t>(256, 1), 20);
  EXPECT_EQ(simulated.engine->Submit(too_long, sink).code(), absl::StatusCode::kInvalidArgument);
}

TEST(EngineTest, NaNsEndOneAnswerWithAnError) {
  auto worker = Scripted({{'q', "abcdefghij"}, {'r', "klmnopqrst"}});
  worker.non_finite = [](const SimulatedWorker::SampleContext& context) {
    return context.first_token == 'q' && context.generated == 4;
  };
  SimulatedEngine simulated(worker);
  auto good_sink = std::make_shared<RecordingSink>(1);
  ASSERT_TRUE(simulated.engine->Submit(MakeRequest("b", Bytes("r"), 10), good_sink).ok());
  const auto bad = RunOne(simulated, MakeRequest("a", Bytes("q"), 10));
  EXPECT_EQ(bad.text, "abcd");
  EXPECT_EQ(bad.last().finish, FinishReason::kError);
  EXPECT_NE(bad.last().error.find("not finite"), std::string::npos);
  EXPECT_EQ(good_sink->Wait()[0].text, "klmnopqrst");
  EXPECT_EQ(RunOne(simulated, MakeRequest("c", Bytes("r"), 10)).text, "klmnopqrst");
}

// Counts what it is told, on the output thread.
struct CountingObserver : engine::EngineObserver {
  void OnFirstToken(double seconds_since_arrival, double seconds_queued) override {
    ++first;
    ordered = ordered && seconds_queued >= 0 && seconds_since_arrival >= seconds_queued;
  }
  void OnNextToken(double seconds_since_last) override {
    ++next;
    ordered = ordered && seconds_since_last >= 0;
  }
  void OnFinished(const engine::FinishedAnswer& answer) override {
    ++finished[answer.reason];
    prompt += static_cast<int>(answer.request->prompt.size());
    generated += answer.generated_tokens;
  }
  void OnDiscardedToken() override { ++discarded; }
  void OnStep(const engine::StepFacts& step) override {  // on the engine thread
    ++steps;
    step_tokens += step.tokens;
    ordered_steps = ordered_steps && step.sequences == 1 && step.seconds >= 0;
  }
  int first = 0, next = 0, prompt = 0, generated = 0, discarded = 0;
  int steps = 0, step_tokens = 0;
  bool ordered_steps = true;
  std::map<FinishReason, int> finished;
  bool ordered = true;
};

TEST(EngineTest, TheObserverIsToldOfEveryTokenOnce) {
  CountingObserver observer;
  engine::EngineStats stats;
  {
    SimulatedEngine simulated(Scripted({{'q', "abcdefghij"}}), {}, &observer);
    RunOne(simulated, MakeRequest("a", Bytes("qx"), 10));
    auto stopped = MakeRequest("b", Bytes("qx"), 10);
    stopped->stop.strings = {"cd"};
    RunOne(simulated, stopped);
    EXPECT_TRUE(simulated.engine->Drain(std::chrono::seconds(60)));
    stats = simulated.engine->stats();
  }
  EXPECT_EQ(observer.first, 2);
  EXPECT_EQ(observer.next, 9 + 3);
  EXPECT_EQ(observer.finished[FinishReason::kLength], 1);
  EXPECT_EQ(observer.finished[FinishReason::kStop], 1);
  EXPECT_EQ(observer.prompt, 4);
  EXPECT_EQ(observer.generated, 14);
  EXPECT_TRUE(observer.ordered);
  // All that was computed is accounted for: the answers' tokens, and those behind the stop string.
  EXPECT_EQ(stats.generation_tokens, 14 + observer.discarded);
  EXPECT_EQ(observer.steps, stats.steps);
  // A step a token, of which each first one has the prompt's two tokens in it, but for those that
  // are there from the request before.
  EXPECT_EQ(stats.prefix_hit_tokens, 1);
  EXPECT_EQ(observer.step_tokens,
            14 + observer.discarded + static_cast<int>(stats.discarded_tokens) + 2 - 1);
  EXPECT_TRUE(observer.ordered_steps);
}

TEST(EngineTest, StatsCountTokensAndSteps) {
  SimulatedEngine simulated(Scripted({{'q', "abcdefghij"}}));
  EXPECT_EQ(simulated.engine->stats().kv_blocks_total, 4096);
  RunOne(simulated, MakeRequest("a", Bytes("question"), 10));
  const auto stats = simulated.engine->stats();
  EXPECT_EQ(stats.prompt_tokens, 8);
  EXPECT_EQ(stats.generation_tokens, 10);
  EXPECT_EQ(stats.steps, 10);
  EXPECT_EQ(stats.requests_running, 0);
  EXPECT_EQ(stats.requests_waiting, 0);
  EXPECT_EQ(stats.kv_blocks_used, 0);
}

}  // namespace
}  // namespace sluice::testing
