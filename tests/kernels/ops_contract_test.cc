#include <functional>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/device.h"

// A call that breaks a shape contract ends the process with a message that holds the values: it is
// our own error, never an input's.
namespace sluice::kernels::testing {
namespace {

class OpsContract : public ::testing::Test {
 protected:
  OpsContract() : device_(ReferenceSubject(), ActivationMode::kF32), ops_(device_.ops()) {
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
    kv_.base = device_.Allocate(1 << 16);
    kv_.blocks = 4, kv_.block_size = 16, kv_.kv_heads = 2, kv_.head_dim = 8;
    kv_.block_bytes = 2 * 2 * kv_.AreaBytes();
    layout_.sequences = layout_.tokens = layout_.query_max = layout_.context_max = 1;
    layout_.blocks_max = 4;
    const int32_t* zeros = device_.Upload(std::vector<int32_t>{0, 0, 0, 0});
    layout_.query_begin = device_.Upload(std::vector<int32_t>{0, 1});
    layout_.first_position = layout_.positions = layout_.kv_slots = layout_.block_table = zeros;
  }
  float* Floats() { return device_.Floats(4096); }
  WeightView Weight(int64_t rows, int64_t cols) {
    return {DType::kF32, rows, cols, reinterpret_cast<std::byte*>(Floats())};
  }
  ActivationView Activation(int64_t rows, int64_t cols) {
    return device_.NewActivation(ActivationFormat::kF32, rows, cols);
  }
  void Rope(TensorView q, ConstTensorView k, const AttentionLayout& layout) {
    ops_.RopeAndWriteKv(q, kv_, k, Heads(Floats(), 1, 2, 8), Heads(Floats(), 64, 4, 2),
                        RopePairs::kAdjacent, layout);
  }

  Device device_;
  Ops& ops_;
  KvLayerView kv_;
  AttentionLayout layout_;
};
using OpsContractDeathTest = OpsContract;

TEST_F(OpsContractDeathTest, MatMul) {
  const TensorView out = Matrix(Floats(), 2, 5);
  ops_.MatMul(out, Activation(2, 8), Weight(5, 8));
  EXPECT_DEATH(ops_.MatMul(out, Activation(2, 7), Weight(5, 8)), "7 against 8");
  EXPECT_DEATH(ops_.MatMul(out, Activation(3, 8), Weight(5, 8)), "out is F32\\[2, 5\\]");
  EXPECT_DEATH(ops_.MatMul(out, Activation(2, 8), Weight(6, 8)), "not \\[2, 6, 1\\]");
  EXPECT_DEATH(ops_.MatMul(Matrix(Floats(), 2, 5, 4), Activation(2, 8), Weight(5, 8)),
               "4 against 5.*stride 4");
  EXPECT_DEATH(
      ops_.MatMul(Matrix(static_cast<float*>(nullptr), 2, 5), Activation(2, 8), Weight(5, 8)),
      "null");
  EXPECT_DEATH(ops_.MatMul(Matrix(Floats(), 2, 5, 0, DType::kF16), Activation(2, 8), Weight(5, 8)),
               "F16");
  EXPECT_DEATH(ops_.MatMul(out, Activation(2, 8), Weight(5, 8), Vector(Floats(), 6)), "bias");
  WeightView odd = Weight(5, 40);
  odd.dtype = DType::kQ4_0;
  EXPECT_DEATH(ops_.MatMul(out, Activation(2, 40), odd), "8 against 0");
}

TEST_F(OpsContractDeathTest, RowOperations) {
  const ConstTensorView ids = Vector(Floats(), 3, DType::kI32);
  ops_.Embed(Matrix(Floats(), 3, 8), Weight(5, 8), ids);
  EXPECT_DEATH(ops_.Embed(Matrix(Floats(), 3, 9), Weight(5, 8), ids), "out");
  EXPECT_DEATH(ops_.Embed(Matrix(Floats(), 3, 8), Weight(5, 8), Vector(Floats(), 3)), "not I32");
  const ConstTensorView x = Matrix(Floats(), 2, 8), weight = Vector(Floats(), 8);
  EXPECT_DEATH(ops_.RmsNorm(Activation(2, 9), x, weight, 1e-5f), "9 against 8");
  EXPECT_DEATH(ops_.RmsNorm(Activation(2, 8), x, Vector(Floats(), 7), 1e-5f), "weight");
  EXPECT_DEATH(ops_.RmsNorm(Activation(2, 8), x, weight, -1.0f), "eps");
  float* data = Floats();
  EXPECT_DEATH(
      ops_.AddRmsNorm(Matrix(data, 2, 8), Activation(2, 8), Matrix(data + 8, 2, 8), weight, 1e-5f),
      "overlap");
  EXPECT_DEATH(ops_.GatedActivation(Activation(2, 4), Matrix(data, 2, 9), GateKind::kSilu),
               "gate_up");
  EXPECT_DEATH(ops_.GatherRows(Matrix(data, 3, 8), Matrix(Floats(), 2, 7), ids), "out");
}

TEST_F(OpsContractDeathTest, Attention) {
  const TensorView q = Heads(Floats(), 1, 4, 8);
  const ConstTensorView k = Heads(Floats(), 1, 2, 8);
  Rope(q, k, layout_);
  ops_.PagedAttention(Activation(1, 32), q, kv_, layout_, 1.0f);
  EXPECT_DEATH(Rope(Heads(Floats(), 1, 3, 8), k, layout_), "q is F32\\[1, 3, 8\\]");
  EXPECT_DEATH(Rope(Heads(Floats(), 1, 4, 6), k, layout_), "q is");
  EXPECT_DEATH(Rope(q, Heads(Floats(), 1, 1, 8), layout_), "k is");
  EXPECT_DEATH(ops_.PagedAttention(Activation(1, 31), q, kv_, layout_, 1.0f), "out");
  AttentionLayout bad = layout_;
  bad.context_max = 65;
  EXPECT_DEATH(Rope(q, k, bad), "65 against 64");
  bad = layout_;
  bad.block_table = nullptr;
  EXPECT_DEATH(Rope(q, k, bad), "null");
  kv_.block_bytes -= 1;
  EXPECT_DEATH(Rope(q, k, layout_), "block_bytes");
  kv_.dtype = DType::kBF16;
  EXPECT_DEATH(Rope(q, k, layout_), "BF16");
}

TEST_F(OpsContractDeathTest, Sampling) {
  SamplingBatch batch;
  batch.rows = 1;
  const TensorView logits = Matrix(Floats(), 1, 8);
  EXPECT_DEATH(ops_.Sample(Vector(Floats(), 1, DType::kI32), logits, batch), "null");
  EXPECT_DEATH(ops_.Sample(Vector(Floats(), 2, DType::kI32), logits, batch), "ids");
  batch.rows = 2;
  EXPECT_DEATH(ops_.ApplyLogitRules(logits, batch), "logits is F32\\[1, 8\\]");
}

// What only the device sees, the reference checks.
TEST_F(OpsContractDeathTest, ReferenceChecksIndices) {
  const auto ids = [&](int32_t id) {
    return Vector(device_.Upload(std::vector<int32_t>{id}), 1, DType::kI32);
  };
  EXPECT_DEATH(ops_.Embed(Matrix(Floats(), 1, 8), Weight(5, 8), ids(5)), "id 5 of 5");
  EXPECT_DEATH(ops_.Embed(Matrix(Floats(), 1, 8), Weight(5, 8), ids(-1)), "id -1 of 5");
  EXPECT_DEATH(ops_.GatherRows(Matrix(Floats(), 1, 8), Matrix(Floats(), 3, 8), ids(3)),
               "row 3 of 3");
}

}  // namespace
}  // namespace sluice::kernels::testing
