// Random arrivals, lengths, cancels, faults, tiny pools, and one to three steps in flight: after
// every step all books balance, and in the end each sequence has exactly the tokens that it would
// have had alone. A failure prints the seed, which alone makes the run.
#include <gtest/gtest.h>

#include <random>

#include "tests/engine/scheduler/scheduler_rig.h"

namespace sluice::testing {
namespace {

using engine::FinishReason;
using engine::GenerateRequest;

struct Traffic {
  int32_t steps = 0;
  int32_t depth = 1;
  double arrivals = 0;   // a step, in the mean
  double cancels = 0;    // a step, in the mean
  double faults = 0;     // of sampled rows
  double deadlines = 0;  // of requests
};

class RandomRun {
 public:
  RandomRun(uint64_t seed, Traffic traffic)
      : random_(seed), traffic_(traffic), worker_(Worker()), rig_(worker_, Options()) {}

  void Run() {
    for (int32_t step = 0; step < traffic_.steps; ++step) {
      Arrive();
      CancelSome();
      Step();
      ASSERT_EQ(rig_.Check(), "") << "at step " << step;
    }
    for (int32_t step = 0; rig_.scheduler().has_sequences(); ++step) {
      ASSERT_LT(step, 200000) << "sequences are starved";
      Step();
      ASSERT_EQ(rig_.Check(), "");
    }
    while (rig_.scheduler().steps_in_flight() > 0) rig_.Commit();
    ASSERT_EQ(rig_.Check(), "");
    EXPECT_EQ(rig_.scheduler().stats().kv_blocks_used, 0);
    CheckOutcomes();
  }

  engine::EngineStats stats() const { return rig_.scheduler().stats(); }
  int32_t faults_seen() const { return faults_seen_; }
  int32_t deadlines_seen() const { return deadlines_seen_; }

 private:
  int32_t Pick(int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(random_);
  }
  bool Chance(double p) { return std::bernoulli_distribution(p)(random_); }

  SimulatedWorker::Options Worker() {
    SimulatedWorker::Options options;
    options.limits.slots = Pick(1, 12);
    options.limits.step_tokens = Pick(1, 60);
    options.limits.block_size = Pick(1, 6);
    options.limits.kv_blocks = Pick(2, 40);
    options.limits.context_tokens = Pick(2, 80);
    options.limits.vocabulary = 60;
    if (traffic_.faults > 0) {
      const auto odds = static_cast<uint64_t>(1 / traffic_.faults);
      options.non_finite = [odds](const SimulatedWorker::SampleContext& context) {
        return context.prefix_hash % odds == 0;
      };
    }
    return options;
  }

  engine::Scheduler::Options Options() {
    engine::Scheduler::Options options;
    options.running_max = Pick(1, 12);
    options.step_tokens = Pick(1, 60);
    options.end_ids = {kEndId};
    options.share_prefixes = Chance(0.9);
    options.prefills_max = Pick(1, 4);
    options.prefill_tokens_min = Pick(1, 16);
    options.line.patience_seconds = Chance(0.5) ? 0.05 : 30;
    options.line.tenants_max = Pick(1, 8);
    options.line.tenants["1"].weight = 3;
    options.line.tenants["2"].running_max = 1;
    options.line.tenants["3"].kv_fraction = 0.3;
    return options;
  }

  void Arrive() {
    const int32_t context = rig_.scheduler().context_tokens();
    for (double left = traffic_.arrivals; left > 0 && rig_.outcomes().size() < 1000000; --left) {
      if (!Chance(std::min(left, 1.0))) continue;
      auto request = std::make_shared<GenerateRequest>();
      request->prompt = RandomPrompt(Pick(1, context - 1));
      if (Chance(0.2)) request->cache_salt = Chance(0.5) ? "a" : "b";
      if (Chance(0.5)) request->tenant = std::to_string(Pick(0, 4));
      if (Chance(0.3)) request->priority = Pick(-1, 1);
      if (Chance(traffic_.deadlines))
        request->deadline = rig_.Now() + std::chrono::milliseconds(Pick(0, 100));
      request->arrival = rig_.Now();
      if (Chance(0.3)) request->first_token_target = 1e-3 * Pick(1, 200);
      if (Chance(0.2)) request->inter_token_target = 1e-3 * Pick(1, 4);
      request->sampling.temperature = Chance(0.3) ? 0.0f : 1.0f;
      request->sampling.seed = random_();
      if (Chance(0.2)) request->sampling.frequency_penalty = 1;
      request->stop.max_tokens = Pick(1, 60);
      request->stop.min_tokens = Chance(0.2) ? Pick(0, request->stop.max_tokens) : 0;
      request->stop.ignore_eos = Chance(0.3);
      if (Chance(0.2)) request->stop.token_ids = {Pick(0, 59), Pick(0, 59)};
      request->n = Pick(1, 3);
      for (int32_t choice = 0; choice < request->n; ++choice)
        live_.push_back(rig_.Add(request, choice));
    }
  }

  // Many begin like one of a few texts, and some end like it.
  std::vector<int32_t> RandomPrompt(int32_t length) {
    if (texts_.empty()) {
      texts_.resize(3);
      for (auto& text : texts_)
        for (int32_t i = 0; i < 80; ++i) text.push_back(Pick(0, 59));
    }
    std::vector<int32_t> prompt = texts_[static_cast<size_t>(Pick(0, 2))];
    prompt.resize(static_cast<size_t>(length));
    const int32_t shared = Chance(0.2) ? length : Chance(0.3) ? 0 : Pick(0, length);
    for (int32_t i = shared; i < length; ++i) prompt[static_cast<size_t>(i)] = Pick(0, 59);
    return prompt;
  }

  void CancelSome() {
    if (live_.empty() || !Chance(traffic_.cancels)) return;
    const size_t index = static_cast<size_t>(Pick(0, static_cast<int32_t>(live_.size()) - 1));
    rig_.Cancel(live_[index]);  // perhaps one that has ended
    live_[index] = live_.back();
    live_.pop_back();
  }

  void Step() {
    while (rig_.scheduler().steps_in_flight() < traffic_.depth && rig_.Plan()) continue;
    if (rig_.scheduler().steps_in_flight() > 0) rig_.Commit();
  }

  void CheckOutcomes() {
    int64_t looked_for = 0, found = 0;
    for (const auto& [id, outcome] : rig_.outcomes()) {
      found += outcome.cached_tokens;
      if (outcome.admitted) looked_for += static_cast<int64_t>(outcome.request->prompt.size());
      ASSERT_EQ(outcome.ends, 1) << "sequence " << id;
      ASSERT_EQ(outcome.events_after_end, 0) << "sequence " << id;
      std::vector<int32_t> expected = rig_.Expected(id);
      const bool too_late = outcome.finish == FinishReason::kExpired;
      if (too_late) ++deadlines_seen_;
      if (outcome.finish == FinishReason::kCancelled || too_late) {
        ASSERT_LE(outcome.tokens.size(), expected.size()) << "sequence " << id;
        expected.resize(outcome.tokens.size());
      }
      if (outcome.finish == FinishReason::kError) ++faults_seen_;
      ASSERT_EQ(outcome.tokens, expected) << "sequence " << id;
    }
    // Once a sequence, however often it was looked at, set back and taken in again.
    ASSERT_EQ(stats().prefix_hit_tokens, found);
    ASSERT_EQ(stats().prefix_query_tokens, looked_for);
  }

  std::mt19937_64 random_;
  const Traffic traffic_;
  SimulatedWorker::Options worker_;
  SchedulerRig rig_;
  std::vector<std::vector<int32_t>> texts_;
  std::vector<uint64_t> live_;
  int32_t faults_seen_ = 0;
  int32_t deadlines_seen_ = 0;
};

class SchedulerPropertyTest : public ::testing::TestWithParam<int32_t> {};

TEST_P(SchedulerPropertyTest, EveryBookBalancesAfterEveryStep) {
  engine::EngineStats total;
  int64_t faults = 0, deadlines = 0;
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Traffic traffic;
    traffic.depth = GetParam();
    traffic.steps = 400;
    traffic.arrivals = 0.05 * static_cast<double>(seed % 7);
    traffic.cancels = seed % 3 == 0 ? 0.1 : 0;
    traffic.faults = seed % 4 == 0 ? 0.01 : 0;
    traffic.deadlines = seed % 5 == 0 ? 0.3 : 0;
    RandomRun run(seed * 1000003 + static_cast<uint64_t>(GetParam()), traffic);
    run.Run();
    if (HasFatalFailure()) return;
    total.steps += run.stats().steps;
    total.preemptions += run.stats().preemptions;
    total.generation_tokens += run.stats().generation_tokens;
    total.prefix_query_tokens += run.stats().prefix_query_tokens;
    total.prefix_hit_tokens += run.stats().prefix_hit_tokens;
    faults += run.faults_seen();
    deadlines += run.deadlines_seen();
  }
  std::printf(
      "depth %d: %lld steps, %lld tokens, %lld preemptions, %lld faults, "
      "%lld of %lld prompt tokens found in memory\n",
      GetParam(), static_cast<long long>(total.steps),
      static_cast<long long>(total.generation_tokens), static_cast<long long>(total.preemptions),
      static_cast<long long>(faults), static_cast<long long>(total.prefix_hit_tokens),
      static_cast<long long>(total.prefix_query_tokens));
  EXPECT_GT(total.steps, 40000);
  EXPECT_GT(total.preemptions, 100);
  EXPECT_GT(faults, 10);
  EXPECT_GT(deadlines, 100);
  EXPECT_GT(total.prefix_hit_tokens, total.prefix_query_tokens / 5);
}

INSTANTIATE_TEST_SUITE_P(Depths, SchedulerPropertyTest, ::testing::Values(1, 2, 3));

}  // namespace
}  // namespace sluice::testing
