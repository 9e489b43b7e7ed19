// What the Engine promises its callers, on real threads over a simulated worker.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include "tests/engine/engine_fixture.h"

namespace sluice::testing {
namespace {

using engine::FinishReason;

TEST(EngineTest, ARequestBecomesText) {
  auto worker = SimulatedEngine::DefaultWorker();
  worker.scripts['q'] = Bytes("Hello, world");
  worker.scripts['q'].push_back(kEndToken);
  SimulatedEngine simulated(worker);
  auto sink = std::make_shared<RecordingSink>(1);
  ASSERT_TRUE(simulated.engine->Submit(MakeRequest("a", Bytes("question"), 100), sink).ok());
  const auto& answer = sink->Wait()[0];
  ASSERT_EQ(answer.ends, 1);
  EXPECT_EQ(answer.text, "Hello, world");
  EXPECT_EQ(answer.tokens, worker.scripts['q']);
  EXPECT_EQ(answer.last().finish, FinishReason::kStop);
  EXPECT_EQ(answer.last().generated_tokens, 13);
  EXPECT_EQ(answer.last().stop_reason.index(), 0u);
}

}  // namespace
}  // namespace sluice::testing
