// The arithmetic of known, planned and pending tokens.
#include "engine/sequence.h"

#include <gtest/gtest.h>

#include "engine/plan/step_plan.h"

namespace sluice::engine {
namespace {

std::shared_ptr<GenerateRequest> Request() {
  auto request = std::make_shared<GenerateRequest>();
  request->prompt = {10, 11, 12};
  request->stop.max_tokens = 2;
  return request;
}

std::vector<int32_t> Tokens(const Sequence& sequence, int32_t first, int32_t count) {
  std::vector<int32_t> tokens;
  sequence.CopyTokens(first, count, &tokens);
  return tokens;
}

TEST(SequenceTest, TokensRunFromPromptToGeneratedToTheOneToCome) {
  Sequence sequence(1, Request(), 0, {}, 100);
  SequenceEvent event;
  sequence.Append(20, &event);
  EXPECT_EQ(sequence.known(), 4);
  EXPECT_EQ(Tokens(sequence, 0, 4), (std::vector<int32_t>{10, 11, 12, 20}));
  EXPECT_EQ(Tokens(sequence, 1, 2), (std::vector<int32_t>{11, 12}));
  EXPECT_EQ(Tokens(sequence, 2, 2), (std::vector<int32_t>{12, 20}));
  EXPECT_EQ(Tokens(sequence, 3, 1), (std::vector<int32_t>{20}));
  EXPECT_EQ(Tokens(sequence, 4, 1), (std::vector<int32_t>{kLastSampledToken}));
}

TEST(SequenceTest, PendingCountsWhatIsKnownOrOnItsWayAndNotPlanned) {
  Sequence sequence(1, Request(), 0, {}, 100);
  EXPECT_EQ(sequence.pending(), 3);
  sequence.planned = 2;
  EXPECT_EQ(sequence.pending(), 1);
  sequence.planned = 3;
  sequence.samples_in_flight = 1;
  EXPECT_EQ(sequence.pending(), 1) << "the token in flight can be computed on";
  sequence.planned = 4;
  sequence.samples_in_flight = 2;
  EXPECT_EQ(sequence.pending(), 0) << "two tokens are all it may get";
}

TEST(SequenceTest, TheContextBoundsTheAnswer) {
  auto request = Request();
  request->stop.max_tokens = 1000;
  Sequence sequence(1, request, 0, {}, 5);
  SequenceEvent event;
  sequence.Append(20, &event);
  EXPECT_EQ(event.finish, FinishReason::kNone);
  sequence.Append(21, &event);
  EXPECT_EQ(event.finish, FinishReason::kLength);
}

}  // namespace
}  // namespace sluice::engine
