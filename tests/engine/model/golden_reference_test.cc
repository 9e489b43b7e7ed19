// The default model on the reference backend, which specifies the fast ones: float32 answers are
// the reference data's. Slow by nature, so on few prompts; the longest one is a test of its own.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "tests/engine/model/forced_run.h"
#include "tests/engine/model/golden_data.h"
#include "tests/support/model_worker.h"
#include "tests/support/test_paths.h"
#include "tests/support/test_scale.h"

namespace sluice::testing {
namespace {

constexpr double kTolerance = 0.002;
constexpr size_t kLongPrompt = 1000;

std::unique_ptr<engine::Worker> ReferenceWorker() {
  WorkerSetup setup;
  setup.backend = "reference";
  setup.limits.slots = 1;
  setup.limits.step_tokens = 512;
  setup.limits.kv_blocks = 200;
  setup.limits.block_size = 16;
  setup.limits.context_tokens = 3200;
  return LoadWorker(DefaultModelPath(), setup);
}

void ExpectLogits(engine::Worker& worker, const LogitsCase& c) {
  SCOPED_TRACE("prompt " + std::to_string(c.id));
  int seen = 0;
  ForcedRun(worker, c.prompt, c.prompt.size() - 1, [&](size_t, std::span<const float> logits) {
    ++seen;
    for (const auto& [id, logit] : c.top) {
      EXPECT_NEAR(logits[static_cast<size_t>(id)], logit, kTolerance) << "token " << id;
    }
    const RowSummary row = Summarise(logits);
    EXPECT_NEAR(row.mean, c.mean, kTolerance);
    EXPECT_NEAR(row.logsumexp, c.logsumexp, kTolerance);
    const auto projection = Project(logits);
    for (size_t r = 0; r < kProjections; ++r) {
      EXPECT_NEAR(projection[r], c.projection[r], kTolerance) << "projection " << r;
    }
  });
  EXPECT_EQ(seen, 1);
}

TEST(GoldenReferenceTest, Logits) {
  const auto worker = ReferenceWorker();
  const size_t longest = TestScale() < 1 ? 10 : kLongPrompt;
  for (const LogitsCase& c : ReadLogitsCases()) {
    if (c.prompt.size() <= longest) ExpectLogits(*worker, c);
  }
}

TEST(GoldenReferenceTest, LogitsOfTheLongPrompt) {
  if (std::getenv("SLUICE_TEST_SLOW") == nullptr) {
    GTEST_SKIP() << "3,000 tokens take minutes; set SLUICE_TEST_SLOW=1 to run it";
  }
  const auto worker = ReferenceWorker();
  for (const LogitsCase& c : ReadLogitsCases()) {
    if (c.prompt.size() > kLongPrompt) ExpectLogits(*worker, c);
  }
}

// Every tenth prompt: chats, texts, code and very short ones.
TEST(GoldenReferenceTest, StepsOfTenPrompts) {
  if (TestScale() < 1) GTEST_SKIP() << "takes a minute";
  const auto worker = ReferenceWorker();
  int prompts = 0, steps = 0;
  for (const GreedyCase& c : ReadGreedyCases()) {
    if (c.id % 10 != 3) continue;
    ++prompts;
    std::vector<int32_t> tokens = c.prompt;
    tokens.insert(tokens.end(), c.ids.begin(), c.ids.end() - 1);
    const size_t first = c.prompt.size() - 1;
    ForcedRun(*worker, tokens, first, [&](size_t position, std::span<const float> logits) {
      const size_t step = position - first;
      ++steps;
      if (c.margins[step] < 0.001) return;
      EXPECT_EQ(Summarise(logits).best, c.ids[step]) << "prompt " << c.id << " step " << step;
    });
  }
  EXPECT_EQ(prompts, 10);
  EXPECT_GT(steps, 300);
}

}  // namespace
}  // namespace sluice::testing
