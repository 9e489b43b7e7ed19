#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/attention_rig.h"
#include "tests/kernels/compare.h"
#include "tests/kernels/oracle.h"
#include "tests/support/test_scale.h"

// RopeAndWriteKv followed by PagedAttention, compared with the same steps on the reference (and the
// reference with plain loops). Values are normal with deviation 1; errors are absolute.
namespace sluice::kernels::testing {
namespace {

// Sums and exponentials in float. With f16 keys and values a key that lies on the edge between two
// halves may fall on either side, which is 2^-11 of it.
double Tolerance(DType kv_dtype) { return kv_dtype == DType::kF32 ? 1e-5 : 3e-4; }

std::string Describe(const AttentionConfig& c) {
  return "head_dim " + std::to_string(c.head_dim) + " kv_heads " + std::to_string(c.kv_heads) +
         " group " + std::to_string(c.group) + " block " + std::to_string(c.block_size) +
         (c.kv_dtype == DType::kF32 ? " f32" : " f16") + " rope " + std::to_string(c.rope_dim) +
         (c.pairs == RopePairs::kAdjacent ? " adjacent" : " halves") +
         (c.out == ActivationFormat::kF32 ? "" : " to Q8");
}

class AttentionConformance : public ::testing::TestWithParam<SubjectMode> {
 protected:
  // Runs the steps and compares every row of every step.
  void Check(const AttentionConfig& config, const std::vector<SequenceData>& sequences,
             const std::vector<std::vector<Part>>& steps) {
    AttentionConfig plain = config;
    plain.out = ActivationFormat::kF32;
    Device device(GetParam()), reference_device(ReferenceSubject(), GetParam().mode);
    AttentionRig rig(device, config, sequences, 1);
    AttentionRig reference(reference_device, plain, sequences, 2);
    for (size_t i = 0; i < steps.size(); ++i) {
      std::vector<float> want;
      if (GetParam().subject.is_reference) {
        for (const Part& part : steps[i]) {
          const auto rows = OracleAttention(config, sequences[static_cast<size_t>(part.sequence)],
                                            part.first, part.count);
          want.insert(want.end(), rows.begin(), rows.end());
        }
      } else {
        want = reference.Step(steps[i]);
      }
      std::vector<double> quanta(want.size(), 0.0);
      if (config.out == ActivationFormat::kQ8) quanta = Q8Steps(want);
      const std::vector<float> got = rig.Step(steps[i]);
      ASSERT_TRUE(AllNear(
          got, want, [&](size_t at) { return Tolerance(config.kv_dtype) + 0.501 * quanta[at]; }))
          << Describe(config) << ", step " << i;
      CheckQueries(config, sequences, steps[i], rig.last_q());
    }
    EXPECT_TRUE(rig.OtherLayerUntouched()) << Describe(config);
  }

 private:
  static void CheckQueries(const AttentionConfig& config,
                           const std::vector<SequenceData>& sequences,
                           const std::vector<Part>& parts, std::span<const float> q) {
    const auto dim = static_cast<size_t>(config.head_dim);
    size_t at = 0;
    for (const Part& part : parts) {
      const SequenceData& s = sequences[static_cast<size_t>(part.sequence)];
      for (int32_t p = part.first; p < part.first + part.count; ++p) {
        for (int32_t h = 0; h < config.heads(); ++h, at += dim) {
          const auto raw =
              std::span(s.q).subspan(static_cast<size_t>(p * config.heads() + h) * dim, dim);
          ASSERT_TRUE(AllNear(q.subspan(at, dim),
                              OracleRotate(raw, p, config.rope_dim, config.pairs), 2e-6))
              << Describe(config) << " position " << p;
        }
      }
    }
  }
};

// Ragged contexts, new sequences beside running ones, contexts that end inside and at the end of a
// block.
TEST_P(AttentionConformance, EveryShape) {
  Random random(21);
  // Under a sanitizer the smallest and the largest are enough.
  const int32_t group_step = 8 - sluice::testing::Scaled(7);
  int case_number = 0;
  for (const int32_t head_dim : {32, 64, 80, 96, 128}) {
    for (int32_t group = 1; group <= 8; group += group_step) {
      for (const int32_t block_size : {16, 32}) {
        for (const DType kv_dtype : {DType::kF32, DType::kF16}) {
          ++case_number;
          AttentionConfig config;
          config.head_dim = head_dim;
          config.group = group;
          config.block_size = block_size;
          config.kv_dtype = kv_dtype;
          config.kv_heads = 1 + case_number % 3;
          config.rope_dim = case_number % 5 == 0 ? head_dim / 2 : head_dim;
          config.pairs = case_number / 3 % 2 == 0 ? RopePairs::kAdjacent : RopePairs::kHalves;
          // The modes differ in the format of the result alone. (Reading a Q8 row back takes a
          // product with the identity: the widest ones cost too much.)
          const bool int8 = GetParam().mode == ActivationMode::kInt8;
          if (int8 && (config.out_cols() % 32 != 0 || config.out_cols() > 640)) continue;
          config.out = int8 ? ActivationFormat::kQ8 : ActivationFormat::kF32;
          std::vector<SequenceData> sequences;
          for (const int32_t positions : {1, 18, 33, 50}) {
            sequences.push_back(RandomSequence(random, config, positions));
          }
          Check(config, sequences,
                {{{3, 0, 40}},
                 {{1, 0, 16}, {3, 40, 8}, {2, 0, 32}},
                 {{0, 0, 1}, {1, 16, 1}, {2, 32, 1}, {3, 48, 1}},
                 {{3, 49, 1}, {1, 17, 1}}});
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_P(AttentionConformance, LongContext) {
  if (GetParam().mode == ActivationMode::kInt8) GTEST_SKIP() << "the same as with f32";
  Random random(22);
  for (const DType kv_dtype : {DType::kF32, DType::kF16}) {
    AttentionConfig config;
    config.kv_dtype = kv_dtype;
    config.kv_heads = 3;
    config.group = 3;
    const std::vector<SequenceData> sequences{RandomSequence(random, config, 700),
                                              RandomSequence(random, config, 3)};
    Check(config, sequences, {{{0, 0, 513}}, {{0, 513, 1}, {1, 0, 2}}, {{1, 2, 1}, {0, 514, 186}}});
  }
}

// Scores of a few hundred: exp must be taken of differences.
TEST_P(AttentionConformance, LargeScores) {
  Random random(23);
  AttentionConfig config;
  config.group = 4;
  std::vector<SequenceData> sequences{RandomSequence(random, config, 70)};
  for (float& value : sequences[0].q) value *= 300.0f;
  Device device(GetParam()), reference_device(ReferenceSubject(), GetParam().mode);
  AttentionRig rig(device, config, sequences, 1), reference(reference_device, config, sequences, 2);
  const std::vector<float> got = rig.Step({{0, 0, 70}}), want = reference.Step({{0, 0, 70}});
  EXPECT_TRUE(std::isfinite(NormOf(want)));
  EXPECT_TRUE(AllNear(got, want, 3e-3));  // the error of a score is relative to it
}

// The first position sees itself alone: the result is its value, to the bit.
TEST_P(AttentionConformance, FirstPositionGivesItsValue) {
  Random random(24);
  AttentionConfig config;
  config.kv_heads = 2;
  const std::vector<SequenceData> sequences{RandomSequence(random, config, 1)};
  Device device(GetParam());
  AttentionRig rig(device, config, sequences, 1);
  EXPECT_EQ(rig.Step({{0, 0, 1}}), sequences[0].v);
}

// A NaN in a query, key or value spoils what reads it, and nothing else: not the other sequences,
// not the heads of another kv head, not the positions before it.
TEST_P(AttentionConformance, NanStaysWithItsReaders) {
  Random random(25);
  AttentionConfig config;
  config.kv_heads = 2;
  config.group = 2;
  config.head_dim = config.rope_dim = 32;
  std::vector<SequenceData> clean;
  for (int i = 0; i < 3; ++i) clean.push_back(RandomSequence(random, config, 40));
  const std::vector<Part> parts{{0, 0, 40}, {1, 0, 40}, {2, 0, 40}};
  Device device(GetParam());
  const std::vector<float> want = AttentionRig(device, config, clean, 1).Step(parts);
  for (const bool in_key : {true, false}) {
    std::vector<SequenceData> poisoned = clean;
    auto& values = in_key ? poisoned[1].k : poisoned[1].v;
    values[(20 * 2 + 1) * 32 + 3] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> got = AttentionRig(device, config, poisoned, 1).Step(parts);
    for (size_t i = 0; i < got.size(); ++i) {
      const size_t row = i / 128, head = i % 128 / 32;
      const bool reads = row >= 40 + 20 && row < 80 && head >= 2;
      if (reads && (in_key || i % 32 == 3)) {
        ASSERT_TRUE(std::isnan(got[i])) << "row " << row << " head " << head;
      } else if (!reads) {
        ASSERT_EQ(got[i], want[i]) << "row " << row << " head " << head;
      }
    }
  }
}

SLUICE_FOR_ALL_SUBJECTS(AttentionConformance);

}  // namespace
}  // namespace sluice::kernels::testing
