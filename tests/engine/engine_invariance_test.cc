// An answer does not depend on its neighbours: one hash of all outputs, whatever the limits, the
// budget, the pool and the order of submission.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "tests/engine/engine_fixture.h"

namespace sluice::testing {
namespace {

using engine::EngineOptions;
using engine::GenerateRequest;

constexpr int kRequests = 64;

std::vector<std::shared_ptr<GenerateRequest>> Requests() {
  std::mt19937 random(7);
  std::vector<std::shared_ptr<GenerateRequest>> requests;
  for (int i = 0; i < kRequests; ++i) {
    std::vector<int32_t> prompt(1 + random() % 120);
    for (int32_t& token : prompt) token = static_cast<int32_t>(random() % kSmallVocabulary);
    auto request =
        MakeRequest("r" + std::to_string(i), prompt, 1 + static_cast<int>(random() % 80));
    request->sampling.temperature = i % 2 == 0 ? 0.0f : 0.8f;
    request->sampling.seed = random();
    if (i % 5 == 0) request->sampling.repetition_penalty = 1.1f;
    if (i % 3 == 0) request->stop.strings = {" w7", "a", "\xC3\xA9"};
    if (i % 7 == 0) request->stop.ignore_eos = true;
    if (i % 4 == 0) request->stop.min_tokens = std::min(5, request->stop.max_tokens);
    if (i % 6 == 0) request->n = 2;
    requests.push_back(std::move(request));
  }
  return requests;
}

struct Outcome {
  uint64_t hash = 14695981039346656037u;
  engine::EngineStats stats;

  void Add(const void* data, size_t size) {
    for (size_t i = 0; i < size; ++i)
      hash = (hash ^ static_cast<const uint8_t*>(data)[i]) * 1099511628211u;
  }
};

// All requests at once, in an order drawn from `shuffle` (0: as they are).
Outcome RunAll(EngineOptions options, int32_t kv_blocks, uint32_t shuffle) {
  auto worker = SimulatedEngine::DefaultWorker();
  worker.limits.kv_blocks = kv_blocks;
  SimulatedEngine simulated(worker, options);
  const auto requests = Requests();
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), 0);
  if (shuffle != 0) std::shuffle(order.begin(), order.end(), std::mt19937(shuffle));
  std::vector<std::shared_ptr<RecordingSink>> sinks(requests.size());
  for (const size_t i : order) {
    sinks[i] = std::make_shared<RecordingSink>(requests[i]->n);
    const absl::Status status = simulated.engine->Submit(requests[i], sinks[i]);
    EXPECT_TRUE(status.ok()) << status;
  }
  Outcome outcome;
  for (const auto& sink : sinks) {
    for (const auto& answer : sink->Wait()) {
      EXPECT_EQ(answer.ends, 1);
      EXPECT_NE(answer.last().finish, engine::FinishReason::kError) << answer.last().error;
      outcome.Add(answer.tokens.data(), answer.tokens.size() * sizeof(int32_t));
      outcome.Add(answer.text.data(), answer.text.size());
      outcome.Add(&answer.last().finish, sizeof(engine::FinishReason));
      outcome.Add(&answer.last().generated_tokens, sizeof(int32_t));
    }
  }
  EXPECT_TRUE(simulated.engine->Drain(std::chrono::seconds(60)));
  outcome.stats = simulated.engine->stats();
  EXPECT_EQ(outcome.stats.kv_blocks_used, 0);
  return outcome;
}

TEST(EngineInvarianceTest, OneHashForAllLimitsBudgetsPoolsAndOrders) {
  const uint64_t alone = RunAll({.running_max = 1, .step_tokens = 2048}, 4096, 0).hash;
  uint32_t shuffle = 0;
  for (const int32_t running_max : {1, 3, 32}) {
    for (const int32_t step_tokens : {16, 100, 2048}) {
      for (const int32_t kv_blocks : {4096, 60}) {
        const Outcome outcome =
            RunAll({.running_max = running_max, .step_tokens = step_tokens}, kv_blocks, shuffle++);
        EXPECT_EQ(outcome.hash, alone) << running_max << " running, " << step_tokens
                                       << " tokens a step, " << kv_blocks << " blocks";
        if (running_max == 32 && kv_blocks == 60) {
          EXPECT_GT(outcome.stats.preemptions, 0);
        }
      }
    }
  }
}

}  // namespace
}  // namespace sluice::testing
