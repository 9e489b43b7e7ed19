// How sequences end: end tokens, stop tokens, lengths, faults, cancellation.
#include <gtest/gtest.h>

#include "tests/engine/scheduler/scheduler_rig.h"

namespace sluice::testing {
namespace {

using engine::FinishReason;
using engine::GenerateRequest;

constexpr int32_t kScripted = 50;  // prompts that begin so get a script

SimulatedWorker::Options Worker(std::vector<int32_t> script = {}) {
  SimulatedWorker::Options options = SmallWorker(100, 40, 100);
  options.scripts[kScripted] = std::move(script);
  return options;
}

engine::Scheduler::Options Options() {
  engine::Scheduler::Options options = SmallOptions();
  options.end_ids = {kEndId, 9};
  return options;
}

std::shared_ptr<GenerateRequest> Scripted(int32_t max_tokens) {
  auto request = std::make_shared<GenerateRequest>();
  request->prompt = {kScripted, 1};
  request->sampling.temperature = 0;
  request->stop.max_tokens = max_tokens;
  return request;
}

SchedulerRig::Outcome RunOne(std::vector<int32_t> script,
                             std::shared_ptr<GenerateRequest> request) {
  SchedulerRig rig(Worker(std::move(script)), Options());
  const uint64_t id = rig.Add(std::move(request));
  rig.RunAll();
  EXPECT_EQ(rig[id].ends, 1);
  EXPECT_EQ(rig[id].events_after_end, 0);
  EXPECT_EQ(rig.scheduler().stats().kv_blocks_used, 0);
  return rig[id];
}

TEST(SequenceEndTest, AnEndTokenEndsTheAnswerAndCountsAsAToken) {
  const auto outcome = RunOne({1, 2, kEndId, 3}, Scripted(10));
  EXPECT_EQ(outcome.finish, FinishReason::kStop);
  EXPECT_EQ(outcome.tokens, (std::vector<int32_t>{1, 2, kEndId}));
  EXPECT_TRUE(outcome.hidden);
  EXPECT_EQ(outcome.stop_token, -1);
}

TEST(SequenceEndTest, EachOfSeveralEndTokensEnds) {
  EXPECT_EQ(RunOne({1, 9, 3}, Scripted(10)).tokens, (std::vector<int32_t>{1, 9}));
}

TEST(SequenceEndTest, IgnoredEndTokensAreTokensLikeOthers) {
  auto request = Scripted(4);
  request->stop.ignore_eos = true;
  const auto outcome = RunOne({1, kEndId, 9, 3, 5}, request);
  EXPECT_EQ(outcome.finish, FinishReason::kLength);
  EXPECT_EQ(outcome.tokens, (std::vector<int32_t>{1, kEndId, 9, 3}));
  EXPECT_FALSE(outcome.hidden);
}

TEST(SequenceEndTest, AStopTokenEndsAndIsNamed) {
  auto request = Scripted(10);
  request->stop.token_ids = {60, 20};
  const auto outcome = RunOne({1, 20, 3}, request);
  EXPECT_EQ(outcome.finish, FinishReason::kStop);
  EXPECT_EQ(outcome.stop_token, 20);
  EXPECT_TRUE(outcome.hidden);
  EXPECT_EQ(outcome.tokens, (std::vector<int32_t>{1, 20}));
}

TEST(SequenceEndTest, AStopTokenEndsAlsoWhenEndTokensAreIgnored) {
  auto request = Scripted(10);
  request->stop.token_ids = {kEndId};
  request->stop.ignore_eos = true;
  const auto outcome = RunOne({1, 9, kEndId, 3}, request);
  EXPECT_EQ(outcome.tokens, (std::vector<int32_t>{1, 9, kEndId}));
  EXPECT_EQ(outcome.stop_token, kEndId);
}

TEST(SequenceEndTest, NothingStopsBeforeMinTokens) {
  // The script has its way against the ban: the scheduler must not end there either.
  auto request = Scripted(10);
  request->stop.min_tokens = 2;
  request->stop.token_ids = {20};
  const auto outcome = RunOne({kEndId, 20, 20, 3}, request);
  EXPECT_EQ(outcome.tokens, (std::vector<int32_t>{kEndId, 20, 20}));
  EXPECT_EQ(outcome.finish, FinishReason::kStop);
}

TEST(SequenceEndTest, WorkersAreToldWhatToBanBeforeMinTokens) {
  auto request = Scripted(10);
  request->stop.min_tokens = 3;
  request->stop.token_ids = {20, 9};
  SchedulerRig rig(Worker(), Options());
  rig.Add(request);
  ASSERT_TRUE(rig.Plan());
  const auto& sampling = rig.last_plan().starts[0].sampling;
  EXPECT_EQ(sampling.min_tokens, 3);
  EXPECT_EQ(sampling.end_ids, (std::vector<int32_t>{kEndId, 9, 20}));
}

TEST(SequenceEndTest, MaxTokensEndWithLength) {
  const auto outcome = RunOne({1, 2, 3, 4}, Scripted(3));
  EXPECT_EQ(outcome.finish, FinishReason::kLength);
  EXPECT_EQ(outcome.tokens, (std::vector<int32_t>{1, 2, 3}));
  EXPECT_FALSE(outcome.hidden);
}

TEST(SequenceEndTest, AnEndTokenAtMaxTokensIsAStop) {
  EXPECT_EQ(RunOne({1, 2, kEndId}, Scripted(3)).finish, FinishReason::kStop);
}

TEST(SequenceEndTest, TheContextEndsWithLength) {
  auto request = Scripted(1000000);
  request->stop.ignore_eos = true;
  const auto outcome = RunOne({}, request);
  EXPECT_EQ(outcome.finish, FinishReason::kLength);
  EXPECT_EQ(outcome.tokens.size(), 38u) << "40 less the prompt's 2";
}

TEST(SequenceEndTest, ARowThatIsNotFiniteEndsItsSequenceAlone) {
  auto worker = Worker({1, 2, 3, 4, 5});
  worker.non_finite = [](const SimulatedWorker::SampleContext& context) {
    return context.first_token == kScripted && context.generated == 3;
  };
  SchedulerRig rig(worker, Options());
  const uint64_t broken = rig.Add(Scripted(10));
  const uint64_t other = rig.Add({3, 4}, 10);
  rig.RunAll();
  EXPECT_EQ(rig[broken].finish, FinishReason::kError);
  EXPECT_NE(rig[broken].error.find("not finite"), std::string::npos);
  EXPECT_EQ(rig[broken].tokens, (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(rig[other].tokens, rig.Expected(other));
  EXPECT_NE(rig[other].finish, FinishReason::kError);
}

TEST(SequenceEndTest, ATokenOutsideTheVocabularyEndsItsSequenceAlone) {
  const auto outcome = RunOne({1, 100}, Scripted(10));
  EXPECT_EQ(outcome.finish, FinishReason::kError);
  EXPECT_NE(outcome.error.find("token 100"), std::string::npos);
  EXPECT_EQ(outcome.tokens, (std::vector<int32_t>{1}));
}

TEST(SequenceEndTest, CancellingFreesBlocksAtOnceAtAnyPoint) {
  SchedulerRig rig(Worker(), Options());
  const uint64_t waiting = rig.Add(Scripted(10));
  rig.Cancel(waiting);
  EXPECT_EQ(rig[waiting].finish, FinishReason::kCancelled);
  EXPECT_FALSE(rig.scheduler().has_sequences());

  const uint64_t running = rig.Add(Scripted(10));
  ASSERT_TRUE(rig.Plan());
  rig.Commit();
  EXPECT_GT(rig.scheduler().stats().kv_blocks_used, 0);
  rig.Cancel(running);
  rig.Cancel(running);
  rig.Cancel(12345);
  EXPECT_EQ(rig[running].ends, 1);
  EXPECT_EQ(rig.scheduler().stats().kv_blocks_used, 0);
  EXPECT_EQ(rig.Check(), "");
}

TEST(SequenceEndTest, FinishAllEndsEverySequenceOnce) {
  SchedulerRig rig(Worker(), Options());
  for (int i = 0; i < 20; ++i) rig.Add({3, 4, i}, 10);
  ASSERT_TRUE(rig.Plan());
  std::vector<engine::SequenceEvent> events;
  const auto error = std::make_shared<const std::string>("lost");
  rig.scheduler().FinishAll(FinishReason::kError, error, {}, &events);
  rig.scheduler().FinishAll(FinishReason::kCancelled, nullptr, {}, &events);
  EXPECT_EQ(events.size(), 20u);
  for (const auto& event : events) {
    EXPECT_EQ(event.finish, FinishReason::kError);
    EXPECT_EQ(*event.error, "lost");
  }
  EXPECT_EQ(rig.Check(), "");
  rig.Commit();  // what was in flight is dropped
  EXPECT_EQ(rig.Check(), "");
  EXPECT_EQ(rig.scheduler().stats().kv_blocks_used, 0);
}

TEST(SequenceEndTest, AnswersOfOneRequestDifferBySeedAndChoiceAlone) {
  auto request = std::make_shared<GenerateRequest>();
  request->prompt = {3, 4};
  request->sampling.seed = 11;
  request->stop.max_tokens = 12;
  request->stop.ignore_eos = true;
  request->n = 3;
  SchedulerRig rig(Worker(), Options());
  std::vector<uint64_t> ids;
  for (int32_t choice = 0; choice < 3; ++choice) ids.push_back(rig.Add(request, choice));
  const uint64_t again = rig.Add(request, 1);
  rig.RunAll();
  EXPECT_NE(rig[ids[0]].tokens, rig[ids[1]].tokens);
  EXPECT_NE(rig[ids[1]].tokens, rig[ids[2]].tokens);
  EXPECT_EQ(rig[again].tokens, rig[ids[1]].tokens);
  for (const uint64_t id : ids) EXPECT_EQ(rig[id].tokens, rig.Expected(id));
}

}  // namespace
}  // namespace sluice::testing
