// The default model against the reference data, on the fastest backend here. Float32 arithmetic
// must give the reference's answers; int8 activations may differ as much as another program's did
// (its figures are beside the tolerances).

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

#include "engine/load_tokenizer.h"
#include "engine/model/gguf.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/engine/model/forced_run.h"
#include "tests/engine/model/golden_data.h"
#include "tests/support/model_worker.h"
#include "tests/support/test_paths.h"
#include "tests/support/test_scale.h"

namespace sluice::testing {
namespace {

constexpr double kFloatTolerance = 0.002;
constexpr double kFloatMargin = 0.001;  // below, the reference's own order is uncertain

engine::ExecutorLimits GoldenLimits() {
  engine::ExecutorLimits limits;
  limits.slots = 64;
  limits.step_tokens = 512;
  limits.kv_blocks = 200;  // the longest prompt and its answer
  limits.block_size = 16;
  limits.context_tokens = 4096;
  return limits;
}

std::unique_ptr<engine::Worker> Float32Worker() {
  WorkerSetup setup;
  setup.limits = GoldenLimits();
  return LoadWorker(DefaultModelPath(), setup);
}

std::unique_ptr<engine::Worker> Int8Worker() {
  WorkerSetup setup;
  setup.activations = kernels::ActivationMode::kInt8;
  setup.kv_dtype = kernels::DType::kF16;
  setup.limits = GoldenLimits();
  return LoadWorker(DefaultModelPath(), setup);
}

// All cases, or as many as the scale leaves of those with short prompts.
template <typename Case>
std::vector<Case> Some(std::vector<Case> cases) {
  if (TestScale() >= 1) return cases;
  const auto n = static_cast<size_t>(Scaled(static_cast<int>(cases.size()) / 3));
  std::erase_if(cases, [](const Case& c) { return c.prompt.size() > 50; });
  cases.resize(std::min(cases.size(), n));
  return cases;
}

// Prompt and answer but its last token: what is fed to see every step of the answer.
std::vector<int32_t> ForcedTokens(const GreedyCase& c) {
  std::vector<int32_t> tokens = c.prompt;
  tokens.insert(tokens.end(), c.ids.begin(), c.ids.end() - 1);
  return tokens;
}

// How two rows of logits differ once a common shift is taken out.
struct Difference {
  double deviation = 0;   // standard deviation of the difference
  double divergence = 0;  // KL(expected || found)
};
Difference Compare(std::span<const float> expected, std::span<const float> found) {
  const RowSummary e = Summarise(expected), f = Summarise(found);
  Difference d;
  for (size_t v = 0; v < expected.size(); ++v) {
    const double shift = (found[v] - f.mean) - (expected[v] - e.mean);
    d.deviation += shift * shift;
    const double log_p = expected[v] - e.logsumexp, log_q = found[v] - f.logsumexp;
    d.divergence += std::exp(log_p) * (log_p - log_q);
  }
  d.deviation = std::sqrt(d.deviation / static_cast<double>(expected.size()));
  return d;
}

// Agreement over the forced steps.
struct Agreement {
  int steps = 0, equal = 0, ties = 0;  // ties: margin below kFloatMargin
  double largest_flipped = 0;          // margin of the surest step that differs
  void Add(int32_t expected, double margin, int32_t found) {
    ++steps;
    ties += margin < kFloatMargin;
    equal += expected == found;
    if (expected != found) largest_flipped = std::max(largest_flipped, margin);
  }
  double percent() const { return 100.0 * equal / steps; }
};

// All steps of all prompts, fed the reference's tokens: float32 gives the reference's token
// wherever its margin is not lost in rounding; int8 agrees nearly always, and its logits stay near
// float32's, which stand for the reference's.
TEST(GoldenTest, ForcedSteps) {
  const auto float32 = Float32Worker(), int8 = Int8Worker();
  std::printf("%s\n%s\n", float32->backend().Describe().c_str(),
              int8->backend().Describe().c_str());
  Agreement float32_steps, int8_steps;
  double deviation_sum = 0, deviation_max = 0, divergence_sum = 0, divergence_max = 0;
  for (const GreedyCase& c : Some(ReadGreedyCases())) {
    const std::vector<int32_t> tokens = ForcedTokens(c);
    std::vector<std::vector<float>> expected;
    const size_t first = c.prompt.size() - 1;
    ForcedRun(*float32, tokens, first, [&](size_t position, std::span<const float> logits) {
      const size_t step = position - first;
      const int32_t best = Summarise(logits).best;
      float32_steps.Add(c.ids[step], c.margins[step], best);
      if (c.margins[step] >= kFloatMargin) {
        EXPECT_EQ(best, c.ids[step])
            << "prompt " << c.id << " step " << step << " margin " << c.margins[step];
      }
      expected.emplace_back(logits.begin(), logits.end());
    });
    ForcedRun(*int8, tokens, first, [&](size_t position, std::span<const float> logits) {
      const size_t step = position - first;
      int8_steps.Add(c.ids[step], c.margins[step], Summarise(logits).best);
      const Difference d = Compare(expected[step], logits);
      deviation_sum += d.deviation, deviation_max = std::max(deviation_max, d.deviation);
      divergence_sum += d.divergence, divergence_max = std::max(divergence_max, d.divergence);
    });
  }
  const double n = int8_steps.steps;
  std::printf("float32: %d of %d steps equal (%d ties), largest margin flipped %.4f\n",
              float32_steps.equal, float32_steps.steps, float32_steps.ties,
              float32_steps.largest_flipped);
  std::printf("int8: %d of %d steps equal (%.2f %%), largest margin flipped %.4f\n",
              int8_steps.equal, int8_steps.steps, int8_steps.percent(), int8_steps.largest_flipped);
  std::printf(
      "int8 logits: deviation %.4f on average, %.4f at most; KL %.5f on average, %.4f at most\n",
      deviation_sum / n, deviation_max, divergence_sum / n, divergence_max);
  EXPECT_LT(float32_steps.largest_flipped, kFloatMargin);
  if (TestScale() < 1) return;  // what follows is about all of them
  EXPECT_EQ(float32_steps.steps, 4088);
  EXPECT_GE(int8_steps.percent(), 98.0);       // seen: 98.65
  EXPECT_LT(int8_steps.largest_flipped, 0.5);  // 0.22
  EXPECT_LE(deviation_max, 0.35);              // 0.22
  EXPECT_LE(deviation_sum / n, 0.08);          // 0.052
  EXPECT_LE(divergence_sum / n, 0.0015);       // 0.00055
  EXPECT_LE(divergence_max, 0.1);              // 0.025
}

void ExpectFloat32Logits(engine::Worker& worker, const LogitsCase& c) {
  ForcedRun(worker, c.prompt, c.prompt.size() - 1, [&](size_t, std::span<const float> logits) {
    for (const auto& [id, logit] : c.top) {
      EXPECT_NEAR(logits[static_cast<size_t>(id)], logit, kFloatTolerance)
          << "prompt " << c.id << " token " << id;
    }
    const RowSummary row = Summarise(logits);
    EXPECT_NEAR(row.mean, c.mean, kFloatTolerance) << "prompt " << c.id;
    EXPECT_NEAR(row.logsumexp, c.logsumexp, kFloatTolerance) << "prompt " << c.id;
    const auto projection = Project(logits);
    for (size_t r = 0; r < kProjections; ++r) {
      EXPECT_NEAR(projection[r], c.projection[r], kFloatTolerance) << "prompt " << c.id << " " << r;
    }
  });
}

TEST(GoldenTest, LogitsInFloat32) {
  const auto worker = Float32Worker();
  for (const LogitsCase& c : Some(ReadLogitsCases())) ExpectFloat32Logits(*worker, c);
}

TEST(GoldenTest, LogitsWithInt8Activations) {
  const auto worker = Int8Worker();
  double top_max = 0, projection_max = 0;
  for (const LogitsCase& c : Some(ReadLogitsCases())) {
    ForcedRun(*worker, c.prompt, c.prompt.size() - 1, [&](size_t, std::span<const float> logits) {
      const double mean = Summarise(logits).mean;
      for (const auto& [id, logit] : c.top) {
        const double found = logits[static_cast<size_t>(id)] - mean;
        top_max = std::max(top_max, std::abs(found - (logit - c.mean)));
      }
      const auto projection = Project(logits), ones = ProjectOnes(logits.size());
      double squares = 0;
      for (size_t r = 0; r < kProjections; ++r) {
        const double d = (projection[r] - mean * ones[r]) - (c.projection[r] - c.mean * ones[r]);
        squares += d * d;
      }
      projection_max = std::max(projection_max, std::sqrt(squares / kProjections));
    });
  }
  std::printf("int8 against the reference, centred: top-50 logits within %.3f, projections %.3f\n",
              top_max, projection_max);
  EXPECT_LE(top_max, 1.0);         // seen elsewhere: 0.55
  EXPECT_LE(projection_max, 0.4);  // 0.21
}

// The second half of each window counts, each token given all before it.
double Perplexity(engine::Worker& worker, const std::vector<int32_t>& ids, size_t window) {
  double sum = 0;
  int counted = 0;
  for (size_t begin = 0; begin + window <= ids.size(); begin += window) {
    const std::span<const int32_t> tokens(ids.data() + begin, window);
    ForcedRun(worker, tokens.first(window - 1), window / 2,
              [&](size_t position, std::span<const float> logits) {
                const auto next = static_cast<size_t>(tokens[position + 1]);
                sum += Summarise(logits).logsumexp - double{logits[next]};
                ++counted;
              });
  }
  return std::exp(sum / counted);
}

TEST(GoldenTest, Perplexity) {
  if (TestScale() < 1) GTEST_SKIP() << "needs the whole text";
  const PerplexityCase c = ReadPerplexityCase();
  const auto file = engine::GgufFile::Open(DefaultModelPath());
  ASSERT_TRUE(file.ok()) << engine::Message(file.status());
  auto spec = engine::TokenizerSpecFromGguf(**file);
  ASSERT_TRUE(spec.ok()) << engine::Message(spec.status());
  const auto tokenizer = engine::Tokenizer::Create(*std::move(spec));
  ASSERT_TRUE(tokenizer.ok()) << engine::Message(tokenizer.status());
  const auto ids = (*tokenizer)->Encode(c.text, engine::ControlTokens::kPlainText);
  ASSERT_TRUE(ids.ok());
  ASSERT_EQ(ids->size(), static_cast<size_t>(c.tokens));

  const auto float32 = Float32Worker(), int8 = Int8Worker();
  for (const auto& [window, expected] : c.by_window) {
    const double exact = Perplexity(*float32, *ids, static_cast<size_t>(window));
    const double rounded = Perplexity(*int8, *ids, static_cast<size_t>(window));
    std::printf(
        "perplexity, windows of %d: reference %.5f, float32 %.5f (%+.4f %%), int8 %.5f (%+.3f "
        "%%)\n",
        window, expected, exact, 100 * (exact / expected - 1), rounded,
        100 * (rounded / expected - 1));
    EXPECT_NEAR(exact / expected, 1, 0.0002) << window;
    EXPECT_NEAR(rounded / expected, 1, 0.01) << window;
  }
}

// All short prompts at once, token by token, each fed what it chose itself: the whole float32
// answers are the reference's, up to a first tie.
TEST(GoldenTest, FreeGreedyRunInOneBatch) {
  WorkerSetup setup;
  setup.limits = GoldenLimits();
  std::vector<GreedyCase> cases = Some(ReadGreedyCases());
  // The prompts' own work is measured elsewhere.
  std::erase_if(cases, [](const GreedyCase& c) { return c.prompt.size() > 100; });
  setup.limits.slots = static_cast<int32_t>(cases.size());
  setup.limits.kv_blocks = 10 * setup.limits.slots;  // 160 tokens each: more than any has
  const auto worker = LoadWorker(DefaultModelPath(), setup);
  engine::SamplingParams greedy;
  greedy.temperature = 0;
  int32_t next_block = 0;
  std::vector<std::vector<int32_t>> answers(cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    const GreedyCase& c = cases[i];
    const auto slot = static_cast<int32_t>(i);
    const auto length = static_cast<int32_t>(c.prompt.size());
    engine::StepPlan plan;
    plan.starts.push_back({slot, greedy, {}, 0});
    const int32_t blocks = (length + static_cast<int32_t>(c.ids.size()) + 15) / 16;
    for (int32_t b = 0; b < blocks; ++b) plan.blocks.push_back(next_block++);
    plan.appends.push_back({slot, 0, blocks});
    plan.tokens = c.prompt;
    plan.slices.push_back({slot, 0, 0, length, engine::SliceOutput::kSample, 0});
    answers[i].push_back(worker->Run(plan).slices.at(0).token);
  }
  while (true) {
    engine::StepPlan plan;
    for (size_t i = 0; i < cases.size(); ++i) {
      const auto generated = static_cast<int32_t>(answers[i].size());
      if (answers[i].size() == cases[i].ids.size()) continue;
      const auto position = static_cast<int32_t>(cases[i].prompt.size()) + generated - 1;
      plan.slices.push_back({static_cast<int32_t>(i), position,
                             static_cast<int32_t>(plan.tokens.size()), 1,
                             engine::SliceOutput::kSample, generated});
      plan.tokens.push_back(engine::kLastSampledToken);
    }
    if (plan.slices.empty()) break;
    for (const engine::SliceResult& result : worker->Run(plan).slices) {
      answers[static_cast<size_t>(result.slot)].push_back(result.token);
    }
  }
  for (size_t i = 0; i < cases.size(); ++i) {
    const GreedyCase& c = cases[i];
    const auto tie = std::find_if(c.margins.begin(), c.margins.end(),
                                  [](double margin) { return margin < kFloatMargin; });
    const ptrdiff_t sure = tie - c.margins.begin();
    EXPECT_TRUE(std::equal(c.ids.begin(), c.ids.begin() + sure, answers[i].begin()))
        << "prompt " << c.id;
  }
}

}  // namespace
}  // namespace sluice::testing
