// From a model file to a running engine: what is refused and with which numbers, the memory's
// division, and a small made-up model answering through the whole engine.

#include "engine/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/load_memory.h"
#include "engine/load_tokenizer.h"
#include "engine/model/gguf.h"
#include "tests/support/small_model.h"

namespace sluice::engine {
namespace {

using sluice::testing::GgufWriter;
using sluice::testing::SmallModel;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr MemoryNeeds kNeeds{1000, 500, 100, 16, 160, 4, 0, 10'000};

TEST(MemoryPlanTest, KvTakesWhatRunningSequencesWantWithinTheLimit) {
  const auto plan = PlanMemory(kNeeds);
  ASSERT_TRUE(plan.ok()) << Message(plan.status());
  EXPECT_EQ(plan->kv_blocks, 40);  // 4 contexts of 10 blocks
  EXPECT_EQ(plan->kv_bytes, 4000);
  EXPECT_EQ(plan->kv_tokens, 640);
  EXPECT_EQ(plan->limit_bytes, 10'000);
  MemoryNeeds tight = kNeeds;
  tight.limit_bytes = 3999;
  EXPECT_EQ(PlanMemory(tight)->kv_blocks, 24);
  MemoryNeeds odd = kNeeds;
  odd.context_tokens = 161;
  EXPECT_EQ(PlanMemory(odd)->kv_blocks, 44);
}

TEST(MemoryPlanTest, AWishForKvMemoryIsTakenAsItIs) {
  MemoryNeeds needs = kNeeds;
  needs.kv_bytes = 1234;
  EXPECT_EQ(PlanMemory(needs)->kv_blocks, 12);
  needs.kv_bytes = 999;
  EXPECT_THAT(Message(PlanMemory(needs).status()),
              HasSubstr("a context of 160 tokens needs 1000 bytes of kv memory, but only 999"));
  needs.kv_bytes = 9000;
  EXPECT_THAT(Message(PlanMemory(needs).status()),
              AllOf(HasSubstr("kv memory of 9000 bytes does not fit"),
                    HasSubstr("needs 10500 bytes, the limit is 10000 bytes")));
}

TEST(MemoryPlanTest, MoreThanAGibibyteOrFourContextsIsTakenOnlyWhenWished) {
  MemoryNeeds needs = kNeeds;
  needs.limit_bytes = int64_t{1} << 50;
  needs.block_bytes = int64_t{1} << 20;
  needs.running_max = 4096;
  EXPECT_EQ(PlanMemory(needs)->kv_bytes, int64_t{1} << 30);
  needs.context_tokens = 160 << 10;
  EXPECT_EQ(PlanMemory(needs)->kv_tokens, 4 * needs.context_tokens);
  needs.kv_bytes = int64_t{64} << 30;
  EXPECT_EQ(PlanMemory(needs)->kv_bytes, needs.kv_bytes);
}

TEST(MemoryPlanTest, OneContextMustFit) {
  MemoryNeeds needs = kNeeds;
  needs.limit_bytes = 2499;
  const auto plan = PlanMemory(needs);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(plan.status()), AllOf(HasSubstr("the model does not fit"),
                                            HasSubstr("make 2500 bytes, the limit is 2499 bytes")));
  needs.limit_bytes = 2500;
  EXPECT_EQ(PlanMemory(needs)->kv_blocks, 10);
  needs.limit_bytes = 100;
  EXPECT_THAT(Message(PlanMemory(needs).status()), HasSubstr("make 2500 bytes, the limit is 100"));
}

TEST(MemoryPlanTest, TokensPlacesFitThirtyTwoBits) {
  MemoryNeeds needs = kNeeds;
  needs.limit_bytes = int64_t{1} << 60;
  needs.context_tokens = 1 << 24, needs.running_max = 4096;
  const auto plan = PlanMemory(needs);
  ASSERT_TRUE(plan.ok());
  EXPECT_LE(plan->kv_tokens, INT32_MAX);
}

class LoadTest : public ::testing::Test {
 protected:
  LoadTest() {
    SmallModel().Write().WriteTo(path_);
    options_.path = path_;
    options_.threads = 1;
    options_.engine.running_max = 4;
    options_.engine.step_tokens = 32;
  }
  ~LoadTest() override { unlink(path_.c_str()); }
  std::string OpenError() const {
    const auto model = LoadableModel::Open(options_);
    return model.ok() ? "no error" : Message(model.status());
  }

  const std::string path_ =
      ::testing::TempDir() + "load_test_" + std::to_string(getpid()) + ".gguf";
  ModelOptions options_;
};

TEST_F(LoadTest, TellsOfTheModelBeforeItIsRead) {
  const auto model = LoadableModel::Open(options_);
  ASSERT_TRUE(model.ok()) << Message(model.status());
  EXPECT_EQ((*model)->name(), "load_test_" + std::to_string(getpid()));
  EXPECT_EQ((*model)->context_tokens(), 128);
  EXPECT_EQ((*model)->bos_token(), "<|im_start|>");
  EXPECT_EQ((*model)->eos_token(), "<|im_end|>");
  EXPECT_NE((*model)->chat_template(), nullptr);
  EXPECT_EQ((*model)->tokenizer()->vocab_size(), 80);
  EXPECT_THAT((*model)->Describe(),
              HasSubstr("llama, 2 layers, width 64, 4 query and 2 kv heads of 16, ffn 96, "
                        "vocabulary 80, context 128, Q8_0 x15"));
  EXPECT_THAT((*model)->DescribeBackend(), HasSubstr("int8 activations"));
  const MemoryPlan& memory = (*model)->memory();
  EXPECT_EQ(memory.kv_blocks, 4 * 8);
  EXPECT_EQ(memory.kv_bytes, memory.kv_blocks * int64_t{2 * 2 * 2 * 16 * 16 * 2});
  EXPECT_GT(memory.weights_bytes, 50'000);
  EXPECT_GT(memory.buffers_bytes, 32 * 64 * 4);
}

TEST_F(LoadTest, NamesAndContextsCanBeChosen) {
  options_.name = "chosen";
  options_.context_tokens = 64;
  const auto model = LoadableModel::Open(options_);
  ASSERT_TRUE(model.ok()) << Message(model.status());
  EXPECT_EQ((*model)->name(), "chosen");
  EXPECT_EQ((*model)->context_tokens(), 64);
}

TEST_F(LoadTest, RefusesOptionsByNameAndLimit) {
  const ModelOptions good = options_;
  const auto with = [&](auto change) {
    options_ = good;
    change(options_);
    return OpenError();
  };
  EXPECT_THAT(with([](auto& o) { o.block_size = 8; }),
              HasSubstr("block_size: 8 is not in [16, 1024]"));
  EXPECT_THAT(with([](auto& o) { o.block_size = 24; }),
              HasSubstr("block_size: 24 is not a multiple"));
  EXPECT_THAT(with([](auto& o) { o.engine.running_max = 0; }), HasSubstr("running_max: 0"));
  EXPECT_THAT(with([](auto& o) { o.engine.step_tokens = 0; }), HasSubstr("step_tokens: 0"));
  EXPECT_THAT(with([](auto& o) { o.context_tokens = 129; }),
              HasSubstr("context_tokens: 129 is more than the model's 128"));
  EXPECT_THAT(with([](auto& o) { o.memory_fraction = 0; }), HasSubstr("memory_fraction: 0.0"));
  EXPECT_THAT(with([](auto& o) { o.threads = -1; }), HasSubstr("threads: -1 is not in"));
  EXPECT_THAT(with([](auto& o) { o.isa = "sse9"; }), HasSubstr("isa: 'sse9' is not supported"));
  EXPECT_THAT(with([](auto& o) { o.kv_bytes = 100; }), HasSubstr("but only 100 bytes are given"));
  EXPECT_THAT(with([](auto& o) { o.kv_bytes = int64_t{1} << 50; }), HasSubstr("does not fit"));
  EXPECT_THAT(with([](auto& o) { o.path += ".absent"; }), HasSubstr("cannot open model file"));
}

TEST_F(LoadTest, EndTokensAreTheFilesAndThoseOfKnownFormats) {
  const std::string bytes = SmallModel().Write().Finish();
  const auto file =
      GgufFile::Parse(std::as_bytes(std::span(bytes.data(), bytes.size())), "small.gguf");
  const auto spec = TokenizerSpecFromGguf(**file);
  ASSERT_TRUE(spec.ok()) << Message(spec.status());
  EXPECT_EQ(spec->bos_id, 1);
  EXPECT_EQ(spec->eos_id, 2);
  EXPECT_THAT(spec->end_ids, ElementsAre(2, 0));  // <|im_end|> and <|endoftext|>
  EXPECT_FALSE(spec->add_bos);
}

TEST_F(LoadTest, VocabulariesThatCannotBeAreRefused) {
  const auto error = [](const GgufWriter& writer) {
    const std::string bytes = writer.Finish();
    const auto file =
        GgufFile::Parse(std::as_bytes(std::span(bytes.data(), bytes.size())), "v.gguf");
    const auto spec = TokenizerSpecFromGguf(**file);
    return spec.ok() ? "no error" : Message(spec.status());
  };
  const auto base = [] {
    return GgufWriter()
        .String("tokenizer.ggml.model", "gpt2")
        .Strings("tokenizer.ggml.tokens", {"a", "b"});
  };
  EXPECT_THAT(error(GgufWriter()), HasSubstr("'tokenizer.ggml.model': missing"));
  EXPECT_THAT(error(GgufWriter().String("tokenizer.ggml.model", "gpt2")),
              HasSubstr("'tokenizer.ggml.tokens': missing or empty"));
  EXPECT_THAT(error(base().I32s("tokenizer.ggml.token_type", {1})),
              HasSubstr("'tokenizer.ggml.token_type': 1 entries for 2 tokens"));
  EXPECT_THAT(error(base().I32s("tokenizer.ggml.token_type", {1, 7})),
              HasSubstr("type 7 of token 1 is not in [0, 6]"));
  EXPECT_THAT(error(base().U32("tokenizer.ggml.eos_token_id", 2)),
              HasSubstr("'tokenizer.ggml.eos_token_id': token id 2 is not in [0, 2)"));
  EXPECT_EQ(error(base().I32("tokenizer.ggml.bos_token_id", -1)), "no error");
  EXPECT_EQ(error(base()), "no error");
}

// Collects one request's answer.
class Sink final : public OutputSink {
 public:
  void OnChunk(OutputChunk chunk) override {
    const std::lock_guard lock(mutex_);
    ids_.insert(ids_.end(), chunk.token_ids.begin(), chunk.token_ids.end());
    finish_ = chunk.finish;
    if (finish_ != FinishReason::kNone) done_.notify_one();
  }
  std::vector<int32_t> Wait() {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return finish_ != FinishReason::kNone; });
    return ids_;
  }
  FinishReason finish() const { return finish_; }

 private:
  std::mutex mutex_;
  std::condition_variable done_;
  std::vector<int32_t> ids_;
  FinishReason finish_ = FinishReason::kNone;
};

TEST_F(LoadTest, AnswersThroughTheWholeEngine) {
  std::vector<std::vector<int32_t>> answers;
  for (const BackendChoice backend : {BackendChoice::kAuto, BackendChoice::kReference}) {
    options_.backend = backend;
    options_.activations = ActivationChoice::kF32;
    options_.kv_dtype = KvDType::kF32;
    auto model = LoadableModel::Open(options_);
    ASSERT_TRUE(model.ok()) << Message(model.status());
    std::vector<std::string> stages;
    double fraction = 0;
    auto engine = (*model)->Load(
        [&](const LoadProgress& progress) {
          if (stages.empty() || stages.back() != progress.stage) stages.push_back(progress.stage);
          fraction = progress.fraction;
        },
        nullptr, {});
    ASSERT_TRUE(engine.ok()) << Message(engine.status());
    EXPECT_THAT(stages, ElementsAre("weights", "warm-up"));
    EXPECT_EQ(fraction, 1.0);
    EXPECT_FALSE((*model)->Load({}, nullptr, {}).ok());  // only once

    std::vector<std::shared_ptr<Sink>> sinks;
    for (int i = 0; i < 6; ++i) {
      auto request = std::make_shared<GenerateRequest>();
      request->id = std::to_string(i);
      for (int t = 0; t < 5 + 10 * i; ++t) request->prompt.push_back((t * 7 + i) % 80);
      request->sampling.temperature = i % 2 == 0 ? 0.0f : 0.7f;
      request->sampling.seed = 5;
      request->stop.max_tokens = 12;
      request->stop.ignore_eos = true;
      request->arrival = Clock::now();
      sinks.push_back(std::make_shared<Sink>());
      const absl::Status submitted = (*engine)->Submit(request, sinks.back());
      ASSERT_TRUE(submitted.ok()) << Message(submitted);
    }
    std::vector<int32_t> all;
    for (const auto& sink : sinks) {
      const std::vector<int32_t> ids = sink->Wait();
      EXPECT_EQ(ids.size(), 12u);
      EXPECT_EQ(sink->finish(), FinishReason::kLength);
      all.insert(all.end(), ids.begin(), ids.end());
    }
    answers.push_back(all);
  }
  EXPECT_EQ(answers[0], answers[1]);
}

}  // namespace
}  // namespace sluice::engine
