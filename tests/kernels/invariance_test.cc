#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/attention_rig.h"
#include "tests/kernels/compare.h"
#include "tests/kernels/device.h"
#include "tests/kernels/random_data.h"
#include "tests/kernels/sampling_rig.h"

// A result row is a function of its own inputs: the same bits alone, in any batch, at any place in
// it, beside rows of NaN, in chunks of any size, on other blocks, with any number of threads. (That
// an answer does not depend on its neighbours begins here.)
namespace sluice::kernels::testing {
namespace {

class Invariance : public ::testing::TestWithParam<SubjectMode> {
 protected:
  std::vector<int> ThreadCounts() const {
    return GetParam().subject.is_reference ? std::vector<int>{1} : std::vector<int>{1, 2};
  }
  std::vector<ActivationFormat> Formats() const {
    if (GetParam().mode == ActivationMode::kF32) return {ActivationFormat::kF32};
    return {ActivationFormat::kF32, ActivationFormat::kQ8};
  }
};

// Ways to divide rows 0 .. n-1 into calls: each call is a list of rows.
std::vector<std::vector<std::vector<int64_t>>> Divisions(int64_t n) {
  std::vector<std::vector<std::vector<int64_t>>> divisions;
  std::vector<int64_t> all(static_cast<size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  for (const int64_t chunk :
       {n, int64_t{1}, int64_t{2}, int64_t{3}, int64_t{5}, int64_t{8}, int64_t{9}, int64_t{33}}) {
    auto& calls = divisions.emplace_back();
    for (int64_t first = 0; first < n; first += chunk) {
      calls.emplace_back(all.begin() + first, all.begin() + std::min(first + chunk, n));
    }
  }
  Random random(1);
  random.Shuffle(all);
  divisions.push_back({all});
  divisions.push_back({{all.begin(), all.begin() + n / 3}, {all.begin() + n / 3, all.end()}});
  return divisions;
}

std::vector<float> Pick(const std::vector<float>& values, const std::vector<int64_t>& rows,
                        int64_t cols) {
  std::vector<float> picked;
  for (const int64_t row : rows) {
    picked.insert(picked.end(), values.begin() + row * cols, values.begin() + (row + 1) * cols);
  }
  return picked;
}

TEST_P(Invariance, MatMul) {
  Random random(41);
  const int64_t rows = 67;
  for (const DType dtype : kWeightTypes) {
    const int64_t cols = InfoOf(dtype).block_elements == 256 ? 768 : 576;
    for (const int64_t outputs : {5, 77}) {
      const RawWeight raw = RandomWeight(random, dtype, outputs, cols);
      const std::vector<float> x = random.Normals(rows * cols);
      std::vector<float> want;
      for (const int threads : ThreadCounts()) {
        Device device(GetParam().subject, GetParam().mode, threads);
        const WeightView weight = device.Pack(raw);
        const ActivationFormat format = device.backend().ActivationFormatFor(dtype);
        const auto product = [&](const std::vector<float>& in) {
          const int64_t n = static_cast<int64_t>(in.size()) / cols;
          float* out = device.Floats(n * outputs);
          device.ops().MatMul(Matrix(out, n, outputs), device.LoadActivation(format, in, n, cols),
                              weight);
          return device.Download<float>(out, n * outputs);
        };
        if (want.empty()) want = product(x);
        for (const auto& division : Divisions(rows)) {
          for (const std::vector<int64_t>& call : division) {
            ASSERT_TRUE(SameBits<float>(product(Pick(x, call, cols)), Pick(want, call, outputs)))
                << InfoOf(dtype).name << " outputs " << outputs << " rows " << call.size()
                << " from " << call[0] << " threads " << threads;
          }
        }
        std::vector<float> poisoned(x.size(), std::numeric_limits<float>::quiet_NaN());
        std::copy_n(x.begin() + 13 * cols, cols, poisoned.begin() + 13 * cols);
        ASSERT_TRUE(
            SameBits<float>(Pick(product(poisoned), {13}, outputs), Pick(want, {13}, outputs)))
            << InfoOf(dtype).name;
      }
    }
  }
}

// Matrices may be stacked or apart.
TEST_P(Invariance, MatMulPartsOfAStack) {
  Random random(42);
  for (const DType dtype : kWeightTypes) {
    const RawWeight a = RandomWeight(random, dtype, 13, 512);
    const RawWeight b = RandomWeight(random, dtype, 30, 512);
    Device device(GetParam());
    const ActivationFormat format = device.backend().ActivationFormatFor(dtype);
    const ActivationView x = device.LoadActivation(format, random.Normals(3 * 512), 3, 512);
    const RawMatrix parts[] = {a.view(), b.view()};
    float* out = device.Floats(3 * (43 + 13 + 30));
    device.ops().MatMul(Matrix(out, 3, 43), x, device.Pack(parts));
    device.ops().MatMul(Matrix(out + 3 * 43, 3, 13), x, device.Pack(a));
    device.ops().MatMul(Matrix(out + 3 * 56, 3, 30), x, device.Pack(b));
    const auto stacked = device.Download<float>(out, 3 * 43);
    const auto first = device.Download<float>(out + 3 * 43, 3 * 13);
    const auto second = device.Download<float>(out + 3 * 56, 3 * 30);
    for (size_t t = 0; t < 3; ++t) {
      const auto row = std::span(stacked).subspan(t * 43, 43);
      EXPECT_TRUE(SameBits<float>(row.first(13), std::span(first).subspan(t * 13, 13)))
          << InfoOf(dtype).name;
      EXPECT_TRUE(SameBits<float>(row.subspan(13), std::span(second).subspan(t * 30, 30)))
          << InfoOf(dtype).name;
    }
  }
}

// Rows go in one by one; their bytes in the backend's own format are compared.
TEST_P(Invariance, NormsAndActivations) {
  Random random(43);
  const int64_t rows = 37;
  for (const int64_t cols : {96, 576}) {
    const std::vector<float> x = random.Normals(rows * cols), delta = random.Normals(rows * cols);
    const std::vector<float> gate_up = random.Normals(rows * 2 * cols), w = random.Normals(cols);
    for (const ActivationFormat format : Formats()) {
      std::vector<std::byte> want[3];
      for (const int threads : ThreadCounts()) {
        for (const auto& division : Divisions(rows)) {
          for (const std::vector<int64_t>& call : division) {
            Device device(GetParam().subject, GetParam().mode, threads);
            const auto n = static_cast<int64_t>(call.size());
            const ConstTensorView weight = Vector(device.Upload(w), cols);
            const TensorView in = Matrix(device.Upload(Pick(x, call, cols)), n, cols);
            const ActivationView out[] = {device.NewActivation(format, n, cols),
                                          device.NewActivation(format, n, cols),
                                          device.NewActivation(format, n, cols)};
            device.ops().RmsNorm(out[0], in, weight, 1e-5f);
            device.ops().AddRmsNorm(
                in, out[1], Matrix(device.Upload(Pick(delta, call, cols)), n, cols), weight, 1e-5f);
            device.ops().GatedActivation(
                out[2], Matrix(device.Upload(Pick(gate_up, call, 2 * cols)), n, 2 * cols),
                GateKind::kSilu);
            for (size_t op = 0; op < 3; ++op) {
              const int64_t row_bytes = out[op].row_bytes;
              const auto got = device.Download<std::byte>(out[op].data, n * row_bytes);
              if (want[op].empty()) want[op] = got;  // the first call has all rows
              for (int64_t i = 0; i < n; ++i) {
                ASSERT_TRUE(std::equal(got.begin() + i * row_bytes,
                                       got.begin() + (i + 1) * row_bytes,
                                       want[op].begin() + call[static_cast<size_t>(i)] * row_bytes))
                    << "operation " << op << " row " << i << " of " << n;
              }
            }
          }
        }
      }
    }
  }
}

// Attention over a few sequences, by any schedule.
class AttentionSchedule {
 public:
  using Rows = std::map<std::pair<int32_t, int32_t>, std::vector<float>>;  // by sequence, position

  AttentionSchedule(Device& device, const AttentionConfig& config,
                    const std::vector<SequenceData>& sequences, uint64_t block_seed)
      : config_(config), sequences_(sequences), rig_(device, config, sequences, block_seed) {}

  // Sequence s advances by up to chunks[s] positions in each step, all of them together.
  Rows Together(const std::vector<int32_t>& chunks) {
    std::vector<int32_t> done(sequences_.size(), 0);
    for (;;) {
      std::vector<Part> parts;
      for (size_t s = 0; s < sequences_.size(); ++s) {
        const int32_t count = std::min(chunks[s], sequences_[s].positions - done[s]);
        if (count > 0) parts.push_back({static_cast<int32_t>(s), done[s], count});
        done[s] += count;
      }
      if (parts.empty()) return rows_;
      if (++steps_ % 2 == 0) std::reverse(parts.begin(), parts.end());
      Step(parts);
    }
  }

  // One sequence after another.
  Rows Apart(int32_t chunk) {
    for (size_t s = 0; s < sequences_.size(); ++s) {
      for (int32_t first = 0; first < sequences_[s].positions; first += chunk) {
        Step({{static_cast<int32_t>(s), first, std::min(chunk, sequences_[s].positions - first)}});
      }
    }
    return rows_;
  }

 private:
  void Step(const std::vector<Part>& parts) {
    const std::vector<float> result = rig_.Step(parts);
    auto row = result.begin();
    for (const Part& part : parts) {
      for (int32_t p = part.first; p < part.first + part.count; ++p) {
        rows_[{part.sequence, p}] = {row, row + config_.out_cols()};
        row += config_.out_cols();
      }
    }
  }

  const AttentionConfig config_;
  const std::vector<SequenceData>& sequences_;
  AttentionRig rig_;
  Rows rows_;
  int steps_ = 0;
};

::testing::AssertionResult SameRows(const AttentionSchedule::Rows& got,
                                    const AttentionSchedule::Rows& want) {
  if (got.size() != want.size()) return ::testing::AssertionFailure() << got.size() << " rows";
  for (const auto& [key, row] : want) {
    if (const auto same = SameBits<float>(got.at(key), row); !same) {
      return ::testing::AssertionFailure()
             << "sequence " << key.first << " position " << key.second << ": " << same.message();
    }
  }
  return ::testing::AssertionSuccess();
}

TEST_P(Invariance, AttentionSchedules) {
  Random random(44);
  for (const DType kv_dtype : {DType::kF32, DType::kF16}) {
    for (const auto& [head_dim, group] :
         {std::pair{64, 3}, std::pair{64, 1}, std::pair{80, 8}, std::pair{32, 5}}) {
      for (const ActivationFormat format : Formats()) {
        // (Reading Q8 rows back is slow, and rounding knows nothing of heads.)
        if (format == ActivationFormat::kQ8 && group != 3) continue;
        AttentionConfig config;
        config.head_dim = config.rope_dim = head_dim;
        config.group = group;
        config.kv_dtype = kv_dtype;
        config.out = format;
        std::vector<SequenceData> sequences;
        for (const int32_t n : {1, 20, 75, 130}) {
          sequences.push_back(RandomSequence(random, config, n));
        }
        AttentionSchedule::Rows want;
        uint64_t block_seed = 0;
        const auto check = [&](int threads, const char* what, auto run) {
          Device device(GetParam().subject, GetParam().mode, threads);
          AttentionSchedule schedule(device, config, sequences, ++block_seed);
          const AttentionSchedule::Rows got = run(schedule);
          if (want.empty()) want = got;
          EXPECT_TRUE(SameRows(got, want))
              << what << " threads " << threads << " head_dim " << head_dim << " group " << group;
        };
        for (const int threads : ThreadCounts()) {
          check(threads, "whole, apart", [](auto& s) { return s.Apart(1000); });
          check(threads, "whole, together", [](auto& s) {
            return s.Together({1000, 1000, 1000, 1000});
          });
          check(threads, "one by one", [](auto& s) { return s.Apart(1); });
          check(threads, "one by one, together", [](auto& s) { return s.Together({1, 1, 1, 1}); });
          for (const int32_t chunk : {2, 5, 8, 16, 17, 33, 64}) {
            check(threads, "chunks", [&](auto& s) { return s.Apart(chunk); });
          }
          check(threads, "mixed", [](auto& s) { return s.Together({1, 7, 16, 33}); });
          check(threads, "mixed otherwise", [](auto& s) { return s.Together({1, 1, 70, 2}); });
        }
      }
    }
  }
}

TEST_P(Invariance, Sampling) {
  Random random(45);
  const int64_t rows = 29, vocabulary = 3001;
  std::vector<float> logits = random.Normals(rows * vocabulary);
  for (float& logit : logits) logit *= 3.0f;
  std::vector<RowRules> rules(rows);
  for (RowRules& row : rules) {
    row.seed = random.Bits();
    row.temperature = random.Below(4) == 0 ? 0.0f : random.Uniform(0.5, 2.0);
    row.top_k = static_cast<int32_t>(random.Below(3) * 40);
    row.top_p = random.Below(2) == 0 ? 1.0f : random.Uniform(0.3, 0.99);
    row.min_p = random.Below(2) == 0 ? 0.0f : random.Uniform(0.0, 0.1);
    row.repetition = 1.3f;
    for (int32_t token = 0; token < 50; ++token) row.history.emplace_back(token * 7, token % 3);
  }
  std::vector<int32_t> want;
  std::vector<float> ruled;
  for (const int threads : ThreadCounts()) {
    for (const auto& division : Divisions(rows)) {
      for (const std::vector<int64_t>& call : division) {
        Device device(GetParam().subject, GetParam().mode, threads);
        std::vector<RowRules> call_rules;
        for (const int64_t row : call) call_rules.push_back(rules[static_cast<size_t>(row)]);
        const auto after = RunLogitRules(device, Pick(logits, call, vocabulary), call_rules);
        const auto ids = RunSample(device, after, call_rules);
        if (want.empty()) want = ids, ruled = after;
        ASSERT_TRUE(SameBits<float>(after, Pick(ruled, call, vocabulary)));
        for (size_t i = 0; i < call.size(); ++i) {
          ASSERT_EQ(ids[i], want[static_cast<size_t>(call[i])]) << "row " << call[i];
        }
      }
    }
  }
}

SLUICE_FOR_ALL_SUBJECTS(Invariance);

}  // namespace
}  // namespace sluice::kernels::testing
