#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/random.h"
#include "tests/kernels/compare.h"
#include "tests/kernels/random_data.h"
#include "tests/kernels/sampling_rig.h"

namespace sluice::kernels::testing {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

RowRules Greedy() {
  RowRules rules;
  rules.temperature = 0.0f;
  return rules;
}

class SamplingConformance : public ::testing::TestWithParam<SubjectMode> {
 protected:
  std::vector<int32_t> Sample(const std::vector<float>& logits, const std::vector<RowRules>& rows) {
    Device device(GetParam());
    return RunSample(device, logits, rows);
  }
  // How often each token comes at positions 0 .. draws-1.
  std::map<int32_t, int> Count(const std::vector<float>& logits, RowRules rules, int draws) {
    std::vector<float> all;
    std::vector<RowRules> rows;
    for (int i = 0; i < draws; ++i) {
      rules.position = static_cast<uint32_t>(i);
      rows.push_back(rules);
      all.insert(all.end(), logits.begin(), logits.end());
    }
    std::map<int32_t, int> counts;
    for (const int32_t id : Sample(all, rows)) ++counts[id];
    return counts;
  }
  std::vector<int32_t> Drawn(const std::vector<float>& logits, const RowRules& rules) {
    std::vector<int32_t> ids;
    for (const auto& [id, count] : Count(logits, rules, 2000)) ids.push_back(id);
    return ids;
  }
};

TEST_P(SamplingConformance, GreedyTakesTheLowestOfEquals) {
  EXPECT_EQ(Sample({1, 5, 3, 5, 5}, {Greedy()}), std::vector<int32_t>{1});
  EXPECT_EQ(Sample({-kInf, -3, -3}, {Greedy()}), std::vector<int32_t>{1});
  EXPECT_EQ(Sample({-0.0f, 0.0f}, {Greedy()}), std::vector<int32_t>{0});
  for (const size_t at : {0, 1, 7, 8, 31, 32, 999, 1000}) {
    std::vector<float> logits(1001, -2.0f);
    logits[at] = logits[1000] = 4.0f;
    EXPECT_EQ(Sample(logits, {Greedy()}), std::vector<int32_t>{static_cast<int32_t>(at)});
  }
}

TEST_P(SamplingConformance, BadRowsGiveMinusOneAndTouchNoOther) {
  const std::vector<float> logits{1,     2,     9,     0,      //
                                  1,     kNan,  9,     0,      //
                                  kInf,  2,     0,     0,      //
                                  -kInf, -kInf, -kInf, -kInf,  //
                                  -kInf, -kInf, 9,     -kInf,  //
                                  0,     0,     0,     kNan,   //
                                  -kInf, kNan,  -kInf, -kInf};
  RowRules random_row;
  random_row.top_p = 0.5f;
  for (const RowRules& rules : {Greedy(), RowRules(), random_row}) {
    const auto ids = Sample(logits, std::vector<RowRules>(7, rules));
    EXPECT_EQ(ids[1], -1);
    EXPECT_EQ(ids[2], -1);
    EXPECT_EQ(ids[3], -1);
    EXPECT_EQ(ids[4], 2);
    EXPECT_EQ(ids[5], -1);
    EXPECT_EQ(ids[6], -1);
    EXPECT_GE(ids[0], 0);
  }
  EXPECT_EQ(Sample(logits, std::vector<RowRules>(7, Greedy()))[0], 2);
}

TEST_P(SamplingConformance, TopK) {
  const std::vector<float> logits{0.0f, 0.3f, 0.2f, 0.3f, 0.1f, -kInf};
  RowRules rules;
  const auto with = [&](int32_t k) {
    rules.top_k = k;
    return Drawn(logits, rules);
  };
  EXPECT_EQ(with(1), (std::vector<int32_t>{1}));
  EXPECT_EQ(with(2), (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(with(3), (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(with(4), (std::vector<int32_t>{1, 2, 3, 4}));
  for (const int32_t k : {0, 5, 6, 1000, std::numeric_limits<int32_t>::max()}) {
    EXPECT_EQ(with(k), (std::vector<int32_t>{0, 1, 2, 3, 4})) << k;
  }
  // A cut among equals keeps the lower ids.
  rules.top_k = 3;
  EXPECT_EQ(Drawn({5, 5, 5, 5, 5, 5}, rules), (std::vector<int32_t>{0, 1, 2}));
}

TEST_P(SamplingConformance, TopP) {
  // Probabilities 0.5, 0.3, 0.15, 0.05.
  const std::vector<float> logits{std::log(0.05f), std::log(0.5f), std::log(0.15f), std::log(0.3f)};
  RowRules rules;
  const auto with = [&](float p) {
    rules.top_p = p;
    return Drawn(logits, rules);
  };
  EXPECT_EQ(with(1e-6f), (std::vector<int32_t>{1}));
  EXPECT_EQ(with(0.0f), (std::vector<int32_t>{1}));
  EXPECT_EQ(with(0.49f), (std::vector<int32_t>{1}));
  EXPECT_EQ(with(0.51f), (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(with(0.79f), (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(with(0.81f), (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(with(0.96f), (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(with(1.0f), (std::vector<int32_t>{0, 1, 2, 3}));
  // The share is of what top-k kept: 0.5 of 0.8 is 0.625.
  rules.top_k = 2;
  EXPECT_EQ(with(0.62f), (std::vector<int32_t>{1}));
  EXPECT_EQ(with(0.63f), (std::vector<int32_t>{1, 3}));
  // Temperature comes first: at 0.5 the shares are as 0.25 : 0.09 : 0.0225 : 0.0025.
  rules.top_k = 0;
  rules.temperature = 0.5f;
  EXPECT_EQ(with(0.68f), (std::vector<int32_t>{1}));
  EXPECT_EQ(with(0.70f), (std::vector<int32_t>{1, 3}));
}

TEST_P(SamplingConformance, MinP) {
  const std::vector<float> logits{std::log(0.05f), std::log(0.5f), std::log(0.15f), std::log(0.3f)};
  RowRules rules;
  const auto with = [&](float p) {
    rules.min_p = p;
    return Drawn(logits, rules);
  };
  EXPECT_EQ(with(0.0f), (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(with(0.09f), (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(with(0.11f), (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(with(0.31f), (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(with(0.61f), (std::vector<int32_t>{1}));
  EXPECT_EQ(with(1.0f), (std::vector<int32_t>{1}));
  EXPECT_EQ(Drawn({2, 7, 7, 1}, rules), (std::vector<int32_t>{1, 2}));  // equals of the likeliest
}

// The frequencies are the probabilities: chi-square with 7 degrees of freedom stays below its 99.9
// % point (the seeds are fixed, so this either holds or does not).
TEST_P(SamplingConformance, DrawsFollowTheDistribution) {
  const std::vector<float> logits{0.0f, 1.0f, 2.0f, -1.0f, 0.5f, 1.5f, -0.5f, 2.5f};
  constexpr int kDraws = 4000;
  for (const float temperature : {0.7f, 1.0f, 2.0f}) {
    for (const uint64_t seed : {uint64_t{3}, uint64_t{0xFFFFFFFF12345678}}) {
      RowRules rules;
      rules.temperature = temperature;
      rules.seed = seed;
      double total = 0.0, chi_square = 0.0;
      for (const float logit : logits) total += std::exp(logit / temperature);
      auto counts = Count(logits, rules, kDraws);
      for (size_t i = 0; i < logits.size(); ++i) {
        const double expected = kDraws * std::exp(logits[i] / temperature) / total;
        const double difference = counts[static_cast<int32_t>(i)] - expected;
        chi_square += difference * difference / expected;
      }
      EXPECT_LT(chi_square, 24.3) << "temperature " << temperature << " seed " << seed;
    }
  }
}

// Equal weights make all sums exact, so that the edges themselves can be tested: a share that is
// just reached, and a draw on the border between two tokens.
TEST_P(SamplingConformance, ExactEdges) {
  RowRules rules;
  const auto with = [&](float p) {
    rules.top_p = p;
    return Drawn({3, 3, 3, 3}, rules);
  };
  EXPECT_EQ(with(0.25f), (std::vector<int32_t>{0}));
  EXPECT_EQ(with(0.2500001f), (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(with(0.5f), (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(with(0.75f), (std::vector<int32_t>{0, 1, 2}));

  rules.top_p = 1.0f;
  int borders = 0;
  for (rules.position = 0; borders < 5; ++rules.position) {
    const float place = UniformDraw(rules.seed, rules.choice, rules.position, 0) * 4096.0f;
    if (place != std::floor(place)) continue;
    ++borders;
    EXPECT_EQ(Sample(std::vector<float>(4096, 1.0f), {rules}),
              std::vector<int32_t>{static_cast<int32_t>(place)});
  }
}

// A draw depends on its seed, choice and position, and on nothing else.
TEST_P(SamplingConformance, DrawsArePure) {
  const std::vector<float> logits(512, 0.0f);
  RowRules rules;
  rules.seed = 42, rules.choice = 3, rules.position = 17;
  const int32_t id = Sample(logits, {rules})[0];
  EXPECT_EQ(id, static_cast<int32_t>(UniformDraw(42, 3, 17, 0) * 512.0f));
  std::vector<RowRules> rows(5, rules);
  rows[1].seed = 43, rows[2].choice = 4, rows[3].position = 18;
  std::vector<float> all;
  for (int i = 0; i < 5; ++i) all.insert(all.end(), logits.begin(), logits.end());
  const auto ids = Sample(all, rows);
  EXPECT_EQ(ids[0], id);
  EXPECT_EQ(ids[4], id);
  EXPECT_NE(ids[1], id);
  EXPECT_NE(ids[2], id);
  EXPECT_NE(ids[3], id);
}

TEST_P(SamplingConformance, ExtremeTemperatures) {
  const std::vector<float> logits{1.0f, 3.0f, 2.9999f, -kInf};
  RowRules rules;
  rules.temperature = 1e-30f;
  EXPECT_EQ(Drawn(logits, rules), std::vector<int32_t>{1});
  rules.temperature = 1e30f;
  EXPECT_EQ(Drawn(logits, rules), (std::vector<int32_t>{0, 1, 2}));
  rules.temperature = 1.0f;
  EXPECT_EQ(Drawn({-3e38f, 3e38f, -1.0f}, rules), std::vector<int32_t>{1});
}

// The same ids as the definition in double, wherever rounding cannot decide.
TEST_P(SamplingConformance, RandomRowsGiveTheDefinedIds) {
  Random random(31);
  int compared = 0, near_an_edge = 0;
  for (const int64_t vocabulary : {1, 7, 64, 1000, 49152}) {
    const size_t rows = vocabulary > 1000 ? 24 : 200;
    std::vector<float> logits;
    std::vector<RowRules> rules(rows);
    for (size_t s = 0; s < rows; ++s) {
      const float spread = random.Uniform(1.0, 8.0);
      for (int64_t i = 0; i < vocabulary; ++i) {
        // Coarse steps give ties.
        const float value = spread * random.Normal();
        logits.push_back(s % 3 == 0 ? std::round(value * 4.0f) / 4.0f : value);
      }
      RowRules& row = rules[s];
      row.temperature = s % 7 == 0 ? 0.0f : random.Uniform(0.2, 1.5);
      if (s % 2 == 1) row.top_k = static_cast<int32_t>(1 + random.Below(100));
      if (s % 3 == 1) row.top_p = random.Uniform(0.05, 0.99);
      if (s % 5 == 1) row.min_p = random.Uniform(0.001, 0.3);
      row.seed = random.Bits();
      row.choice = static_cast<uint32_t>(random.Below(8));
      row.position = static_cast<uint32_t>(random.Below(5000));
    }
    const auto ids = Sample(logits, rules);
    for (size_t s = 0; s < rows; ++s) {
      const auto first = logits.begin() + static_cast<int64_t>(s) * vocabulary;
      const Decision want = OracleSample({first, first + vocabulary}, rules[s]);
      if (want.margin < (GetParam().subject.is_reference ? 1e-12 : 2e-5)) {
        ++near_an_edge;
        continue;
      }
      ++compared;
      EXPECT_EQ(ids[s], want.id) << "vocabulary " << vocabulary << " row " << s;
    }
  }
  EXPECT_GT(compared, 700);
  EXPECT_LT(near_an_edge, 100);
}

TEST_P(SamplingConformance, PenaltiesByHand) {
  RowRules rules;
  rules.repetition = 2.0f, rules.frequency = 0.5f, rules.presence = 0.25f;
  rules.history = {{0, 0}, {1, 0}, {2, 1}, {3, 3}, {5, 2}};
  const std::vector<float> logits{4.0f, -4.0f, 4.0f, -4.0f, 9.0f, 0.0f};
  Device device(GetParam());
  EXPECT_EQ(RunLogitRules(device, logits, {rules}),
            (std::vector<float>{2.0f, -8.0f, 2.0f - 0.5f - 0.25f, -8.0f - 1.5f - 0.25f, 9.0f,
                                -1.0f - 0.25f}));
  // Negative penalties reward.
  rules.repetition = 1.0f, rules.frequency = -1.0f, rules.presence = -0.5f;
  EXPECT_EQ(RunLogitRules(device, logits, {rules}),
            (std::vector<float>{4.0f, -4.0f, 5.5f, -0.5f, 9.0f, 2.5f}));
}

TEST_P(SamplingConformance, BiasComesLast) {
  RowRules rules;
  rules.repetition = 2.0f;
  rules.history = {{1, 1}};
  rules.bias = {{1, 10.0f}, {2, -kInf}, {0, -1.5f}};
  Device device(GetParam());
  EXPECT_EQ(RunLogitRules(device, {1, 2, 3, 4}, {rules}),
            (std::vector<float>{-0.5f, 11.0f, -kInf, 4.0f}));
  // A forbidden token is never drawn, whatever its logit; when all are forbidden there is no
  // answer.
  RowRules all = Greedy();
  all.bias = {{0, -kInf}, {1, -kInf}};
  const auto forbidden = RunLogitRules(device, {1, 2}, {all});
  EXPECT_EQ(RunSample(device, forbidden, {all}), std::vector<int32_t>{-1});
}

TEST_P(SamplingConformance, RulesTouchTheirOwnRows) {
  Random random(32);
  const int64_t vocabulary = 300;
  const size_t rows = 12;
  const std::vector<float> logits = random.Normals(static_cast<int64_t>(rows) * vocabulary);
  std::vector<float> want = logits;
  std::vector<RowRules> rules(rows);
  for (size_t s = 0; s < rows; ++s) {
    if (s % 3 == 0) continue;  // nothing for this row
    RowRules& row = rules[s];
    row.repetition = random.Uniform(0.5, 2.0);
    row.frequency = random.Uniform(-1.0, 1.0);
    row.presence = random.Uniform(-1.0, 1.0);
    const int64_t step = 1 + static_cast<int64_t>(s);
    for (int64_t token = 0; token < vocabulary; token += step) {
      const auto times = static_cast<int32_t>(random.Below(4));
      row.history.emplace_back(static_cast<int32_t>(token), times);
      float& logit = want[s * 300 + static_cast<size_t>(token)];
      logit = logit > 0 ? logit / row.repetition : logit * row.repetition;
      logit -= row.frequency * static_cast<float>(times);
      if (times > 0) logit -= row.presence;
    }
    if (s % 2 == 0) {
      row.bias = {{7, 1.5f}, {299, -2.5f}};
      want[s * 300 + 7] += 1.5f;
      want[s * 300 + 299] -= 2.5f;
    }
  }
  Device device(GetParam());
  EXPECT_TRUE(AllNear(RunLogitRules(device, logits, rules), want, 1e-6));
  EXPECT_TRUE(SameBits<float>(RunLogitRules(device, logits, std::vector<RowRules>(rows)), logits));
}

SLUICE_FOR_ALL_SUBJECTS(SamplingConformance);

// The generator's published first word for counter 0 and key 0 (Random123's known answers).
TEST(Philox, KnownAnswer) {
  EXPECT_EQ(Philox(0, 0, 0, 0), 0x6627E8D5u);
  EXPECT_NE(Philox(1, 0, 0, 0), Philox(uint64_t{1} << 32, 0, 0, 0));
  for (uint32_t i = 0; i < 10000; ++i) {
    const float u = UniformDraw(9, 0, i, 0);
    ASSERT_TRUE(u >= 0.0f && u < 1.0f);
  }
}

}  // namespace
}  // namespace sluice::kernels::testing
