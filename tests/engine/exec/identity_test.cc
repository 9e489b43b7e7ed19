// An answer does not depend on its neighbours: one hash of all answers and logits, greedy and
// seeded, for any batch, chunk, token budget and order, and after preemption.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/engine/exec/bit_identity.h"
#include "tests/support/model_worker.h"
#include "tests/support/test_paths.h"
#include "tests/support/test_scale.h"

namespace sluice::testing {
namespace {

uint64_t HashOf(const void* data, size_t bytes, uint64_t hash = 0xcbf29ce484222325u) {
  for (size_t i = 0; i < bytes; ++i) {
    hash = (hash ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001b3u;  // FNV-1a
  }
  return hash;
}

std::vector<Generation> MixedGenerations(int n) {
  std::mt19937_64 random(7);
  std::vector<Generation> generations;
  for (int i = 0; i < n; ++i) {
    Generation g;
    const size_t length = i % 8 == 0 ? 150 + random() % 80 : 1 + random() % 40;
    for (size_t t = 0; t < length; ++t) {
      g.prompt.push_back(static_cast<int32_t>(random() % 40'000));
    }
    g.tokens = 4 + static_cast<int32_t>(random() % 8);
    g.sampling.temperature = i % 2 == 0 ? 0.0f : 0.9f;
    g.sampling.seed = random();
    if (i % 4 == 1) g.sampling.top_p = 0.9f;
    if (i % 4 == 3) g.sampling.top_k = 50, g.sampling.frequency_penalty = 0.7f;
    if (i % 6 == 2) g.sampling.repetition_penalty = 1.3f;
    generations.push_back(g);
  }
  return generations;
}

struct Named {
  std::string name;
  Schedule schedule;
};
const Named kSchedules[] = {
    {"alone", {1}},
    {"3 at once", {3}},
    {"32 at once", {32}},
    {"budget 16", {32, 1 << 30, 16}},
    {"budget 100", {8, 1 << 30, 100}},
    {"chunks of 7, reversed", {5, 7, 1 << 30, true}},
    {"token by token", {32, 1}},
    {"preempted", {6, 64, 1 << 30, false, 3}},
};

void ExpectOneHash(const WorkerSetup& setup, const std::vector<Generation>& generations) {
  const auto worker = LoadWorker(DefaultModelPath(), setup);
  std::vector<std::vector<int32_t>> expected;
  for (const Named& named : kSchedules) {
    const auto answers = Generate(*worker, generations, named.schedule);
    uint64_t hash = HashOf("", 0);
    for (const auto& answer : answers) {
      hash = HashOf(answer.data(), answer.size() * sizeof(int32_t), hash);
    }
    std::printf("%s: %s: %016llx\n", worker->backend().Describe().c_str(), named.name.c_str(),
                static_cast<unsigned long long>(hash));
    std::fflush(stdout);
    if (expected.empty()) expected = answers;
    for (size_t i = 0; i < answers.size(); ++i) {
      EXPECT_EQ(answers[i], expected[i]) << named.name << ", generation " << i;
    }
  }
}

TEST(IdentityTest, AnswersWithInt8Activations) {
  WorkerSetup setup;
  setup.activations = kernels::ActivationMode::kInt8;
  setup.kv_dtype = kernels::DType::kF16;
  setup.limits = {32, 512, 640, 16, 512, 0};
  for (const std::string& backend : BackendNames()) {
    if (backend == "reference") continue;
    setup.backend = backend;
    ExpectOneHash(setup, MixedGenerations(Scaled(backend == BestBackend() ? 32 : 8)));
  }
}

TEST(IdentityTest, AnswersInFloat32) {
  WorkerSetup setup;
  setup.limits = {32, 512, 640, 16, 512, 0};
  ExpectOneHash(setup, MixedGenerations(Scaled(12)));
}

// The bits of the logits themselves, after a prompt of every kind of length, in chunks, with any
// number of threads, and beside others.
TEST(IdentityTest, LogitsToTheBit) {
  std::mt19937_64 random(3);
  std::vector<int32_t> prompt(static_cast<size_t>(std::max(70, Scaled(300))));
  for (int32_t& token : prompt) token = static_cast<int32_t>(random() % 40'000);
  engine::SamplingParams greedy;
  greedy.temperature = 0;
  for (const auto mode : {kernels::ActivationMode::kInt8, kernels::ActivationMode::kF32}) {
    uint64_t expected = 0;
    for (const int threads : {1, 2, 3}) {
      WorkerSetup setup;
      setup.activations = mode;
      setup.threads = threads;
      setup.limits = {4, 512, 128, 16, 512, 0};
      const auto worker = LoadWorker(DefaultModelPath(), setup);
      const auto vocabulary = static_cast<size_t>(worker->limits().vocabulary);
      for (const int32_t chunk : {512, 64, 33, 1}) {
        if (chunk == 1 && threads != 2) continue;
        // The last rows sampled are generation 0's: the others end before.
        uint64_t hash = 0;
        worker->SetProbe({false, [&](const engine::StepPlan& plan, std::span<const int32_t> rows,
                                     const float* logits) {
                            size_t row = 0;
                            for (const engine::PlanSlice& slice : plan.slices) {
                              if (slice.output != engine::SliceOutput::kSample) continue;
                              ASSERT_LT(row, rows.size());
                              if (slice.slot == 0 && slice.generated == 2) {
                                hash =
                                    HashOf(logits + row * vocabulary, vocabulary * sizeof(float));
                              }
                              ++row;
                            }
                          }});
        std::vector<Generation> generations{{prompt, greedy, 3}};
        if (chunk != 512) generations.push_back({{1, 2, 3, 4, 5}, greedy, 40});
        Generate(*worker, generations, {2, chunk});
        ASSERT_NE(hash, 0u);
        if (expected == 0) expected = hash;
        EXPECT_EQ(hash, expected) << threads << " threads, chunks of " << chunk;
      }
    }
  }
}

}  // namespace
}  // namespace sluice::testing
