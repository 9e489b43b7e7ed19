// The state machine between engine and wire: order, merging, the end in every case, and no matter
// which threads meet in it.
#include "server/grpc/answer_stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <random>
#include <thread>

namespace sluice::server::rpc {
namespace {

using engine::FinishReason;

engine::OutputChunk Chunk(int32_t choice, std::string text, int32_t generated,
                          FinishReason finish = FinishReason::kNone) {
  engine::OutputChunk chunk;
  chunk.choice = choice;
  chunk.text = std::move(text);
  chunk.token_ids = {generated};
  chunk.generated_tokens = generated;
  chunk.finish = finish;
  return chunk;
}

// A wire whose writes complete when the test says so.
class ManualWire : public StreamWire {
 public:
  void Write(AnswerDelta delta, int64_t generated) override {
    EXPECT_FALSE(writing) << "two writes at once";
    EXPECT_FALSE(finished);
    writing = true;
    written.push_back(std::move(delta));
    totals.push_back(generated);
  }
  void Finish(const absl::Status& status) override {
    EXPECT_FALSE(finished) << "finished twice";
    EXPECT_FALSE(writing) << "finished during a write";
    finished = status;
  }
  void Abandon() override { ++abandoned; }

  bool writing = false;
  std::vector<AnswerDelta> written;
  std::vector<int64_t> totals;
  std::optional<absl::Status> finished;
  int abandoned = 0;
};

class AnswerStreamTest : public ::testing::Test {
 protected:
  explicit AnswerStreamTest(size_t backlog_bytes = 1000)
      : stream_(&wire_, {backlog_bytes, [this](const auto& progress, const absl::Status& status) {
                           progress_ = progress;
                           told_ = status;
                           ++ended_;
                         }}) {}

  void Accept(int32_t answers) {
    ASSERT_TRUE(stream_.Begin());
    stream_.Expect(answers);
    stream_.Accept([this] { ++cancels_; });
  }
  void Written(bool ok = true) {
    wire_.writing = false;
    stream_.OnWritten(ok);
  }

  ManualWire wire_;
  int cancels_ = 0;
  int ended_ = 0;
  std::vector<AnswerProgress> progress_;
  absl::Status told_;
  AnswerStream stream_;
};

TEST_F(AnswerStreamTest, MergesWhatComesDuringAWrite) {
  Accept(1);
  stream_.OnChunk(Chunk(0, "a", 1));
  stream_.OnChunk(Chunk(0, "b", 2));
  stream_.OnChunk(Chunk(0, "c", 3));
  ASSERT_EQ(wire_.written.size(), 1u);
  EXPECT_EQ(wire_.written[0].text, "a");
  Written();
  ASSERT_EQ(wire_.written.size(), 2u);
  EXPECT_EQ(wire_.written[1].text, "bc");
  EXPECT_EQ(wire_.written[1].token_ids, (std::vector<int32_t>{2, 3}));
  EXPECT_EQ(wire_.totals, (std::vector<int64_t>{-1, -1}));
  stream_.OnChunk(Chunk(0, "d", 4, FinishReason::kStop));
  Written();
  EXPECT_FALSE(wire_.finished);
  EXPECT_EQ(wire_.totals.back(), 4);
  EXPECT_EQ(wire_.written.back().finish, FinishReason::kStop);
  Written();
  ASSERT_TRUE(wire_.finished);
  EXPECT_TRUE(wire_.finished->ok());
  EXPECT_EQ(ended_, 1);
  EXPECT_EQ(progress_[0].generated, 4);
  EXPECT_EQ(cancels_, 0);
}

TEST_F(AnswerStreamTest, AnswersWaitInTheOrderInWhichTheyCame) {
  Accept(3);
  stream_.OnChunk(Chunk(1, "x", 1));
  stream_.OnChunk(Chunk(2, "c", 1, FinishReason::kLength));
  stream_.OnChunk(Chunk(0, "a", 1));
  stream_.OnChunk(Chunk(1, "y", 2, FinishReason::kStop));
  stream_.OnChunk(Chunk(0, "b", 2, FinishReason::kStop));
  for (int i = 0; i < 3; ++i) Written();
  Written();
  std::vector<std::pair<int32_t, std::string>> got;
  for (const AnswerDelta& delta : wire_.written) got.emplace_back(delta.index, delta.text);
  EXPECT_EQ(
      got, (std::vector<std::pair<int32_t, std::string>>{{1, "x"}, {2, "c"}, {0, "ab"}, {1, "y"}}));
  EXPECT_EQ(wire_.totals, (std::vector<int64_t>{-1, -1, -1, 5}));
  ASSERT_TRUE(wire_.finished);
}

TEST_F(AnswerStreamTest, ChunksThatSayNothingAreNotWritten) {
  Accept(1);
  engine::OutputChunk nothing;
  stream_.OnChunk(std::move(nothing));
  EXPECT_TRUE(wire_.written.empty());
}

TEST_F(AnswerStreamTest, ChunksMayComeBeforeSubmitReturns) {
  ASSERT_TRUE(stream_.Begin());
  stream_.Expect(1);
  stream_.OnChunk(Chunk(0, "all", 1, FinishReason::kStop));
  Written();
  EXPECT_FALSE(wire_.finished) << "the pool still works with the call";
  stream_.Accept([this] { ++cancels_; });
  ASSERT_TRUE(wire_.finished);
  EXPECT_TRUE(wire_.finished->ok());
  EXPECT_EQ(cancels_, 0);
}

TEST_F(AnswerStreamTest, ARefusalFinishes) {
  ASSERT_TRUE(stream_.Begin());
  stream_.Expect(1);
  stream_.Refuse(engine::InvalidArgument("n: 9"));
  ASSERT_TRUE(wire_.finished);
  EXPECT_EQ(*wire_.finished, engine::InvalidArgument("n: 9"));
  EXPECT_EQ(ended_, 0);
  stream_.OnGone(absl::CancelledError(""));  // too late to matter
}

TEST_F(AnswerStreamTest, AClientThatLeavesWhilePreparedFinishesAfterIt) {
  stream_.OnGone(absl::CancelledError("gone"));
  EXPECT_FALSE(wire_.finished);
  EXPECT_FALSE(stream_.Begin());
  stream_.Refuse(absl::CancelledError(""));
  ASSERT_TRUE(wire_.finished);
  EXPECT_TRUE(absl::IsCancelled(*wire_.finished));
}

TEST_F(AnswerStreamTest, AClientThatLeavesBetweenBeginAndAcceptIsCancelled) {
  ASSERT_TRUE(stream_.Begin());
  stream_.Expect(1);
  stream_.OnGone(absl::CancelledError("gone"));
  EXPECT_EQ(cancels_, 0);
  stream_.Accept([this] { ++cancels_; });
  EXPECT_EQ(cancels_, 1);
  ASSERT_TRUE(wire_.finished);
  stream_.OnChunk(Chunk(0, "", 0, FinishReason::kCancelled));
  EXPECT_EQ(ended_, 1);
  EXPECT_TRUE(absl::IsCancelled(told_));
  EXPECT_EQ(cancels_, 1);
}

TEST_F(AnswerStreamTest, LeavingDuringAWriteWaitsForIt) {
  Accept(1);
  stream_.OnChunk(Chunk(0, "a", 1));
  stream_.OnChunk(Chunk(0, "b", 2));
  stream_.OnGone(absl::DeadlineExceededError("late"));
  EXPECT_EQ(cancels_, 1);
  EXPECT_FALSE(wire_.finished);
  Written(false);
  ASSERT_TRUE(wire_.finished);
  EXPECT_TRUE(absl::IsDeadlineExceeded(*wire_.finished));
  EXPECT_EQ(wire_.written.size(), 1u);
  EXPECT_EQ(cancels_, 1);
}

TEST_F(AnswerStreamTest, AFaultOfTheEngineComesAfterTheText) {
  Accept(2);
  stream_.OnChunk(Chunk(1, "good", 1));
  engine::OutputChunk fault = Chunk(0, "last", 1, FinishReason::kError);
  fault.error = "NaN";
  stream_.OnChunk(std::move(fault));
  EXPECT_EQ(cancels_, 1) << "the other answer ends, too";
  Written();
  EXPECT_EQ(wire_.written.back().text, "last");
  EXPECT_EQ(wire_.totals.back(), -1) << "no usage with an error";
  Written();
  ASSERT_TRUE(wire_.finished);
  EXPECT_TRUE(absl::IsInternal(*wire_.finished));
  stream_.OnChunk(Chunk(1, "", 1, FinishReason::kCancelled));
  EXPECT_EQ(ended_, 1);
}

TEST_F(AnswerStreamTest, AnEndByTheServerIsUnavailable) {
  Accept(1);
  stream_.OnChunk(Chunk(0, "", 0, FinishReason::kCancelled));
  ASSERT_TRUE(wire_.finished);
  EXPECT_TRUE(absl::IsUnavailable(*wire_.finished));
  EXPECT_EQ(cancels_, 0);
}

TEST_F(AnswerStreamTest, ADeadlineThatTheEngineSeesFirstIsOne) {
  Accept(1);
  stream_.OnChunk(Chunk(0, "", 0, FinishReason::kExpired));
  ASSERT_TRUE(wire_.finished);
  EXPECT_TRUE(absl::IsDeadlineExceeded(*wire_.finished));
}

class SmallBacklogTest : public AnswerStreamTest {
 protected:
  SmallBacklogTest() : AnswerStreamTest(100) {}
};

TEST_F(SmallBacklogTest, ASlowReaderIsCutOff) {
  Accept(1);
  stream_.OnChunk(Chunk(0, std::string(500, 'a'), 1));  // written at once, however large
  EXPECT_EQ(wire_.abandoned, 0);
  for (int i = 2; i < 10; ++i) stream_.OnChunk(Chunk(0, std::string(8, 'b'), i));
  EXPECT_EQ(wire_.abandoned, 0) << "8 times 12 bytes";
  stream_.OnChunk(Chunk(0, "over", 10));
  EXPECT_EQ(wire_.abandoned, 1);
  EXPECT_EQ(cancels_, 1);
  stream_.OnChunk(Chunk(0, "more", 11));
  Written(false);
  ASSERT_TRUE(wire_.finished);
  EXPECT_TRUE(absl::IsAborted(*wire_.finished));
  EXPECT_EQ(wire_.written.size(), 1u);
  EXPECT_EQ(wire_.abandoned, 1);
}

// As gRPC is: writes complete on another thread.
class ThreadedWire : public StreamWire {
 public:
  ~ThreadedWire() override { worker_.join(); }
  void Serve(std::shared_ptr<AnswerStream> stream, int write_us) {
    worker_ = std::thread([this, stream = std::move(stream), write_us] {
      for (;;) {
        {
          std::unique_lock lock(mutex_);
          changed_.wait(lock, [this] { return writing_ || finished_; });
          if (finished_) return;
          writing_ = false;
        }
        if (write_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(write_us));
        stream->OnWritten(!abandoned_);
      }
    });
  }
  void Write(AnswerDelta delta, int64_t) override {
    std::lock_guard lock(mutex_);
    EXPECT_FALSE(writing_ || finished_);
    writing_ = true;
    text_ += delta.text;
    ++writes_;
    changed_.notify_one();
  }
  void Finish(const absl::Status& status) override {
    std::lock_guard lock(mutex_);
    EXPECT_FALSE(writing_ || finished_);
    finished_ = true;
    status_ = status;
    changed_.notify_one();
  }
  void Abandon() override { abandoned_ = true; }
  absl::Status WaitForEnd() {
    worker_.join();
    worker_ = std::thread([] {});
    return status_;
  }
  const std::string& text() const { return text_; }
  int writes() const { return writes_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool writing_ = false;
  bool finished_ = false;
  std::atomic<bool> abandoned_{false};
  std::string text_;
  int writes_ = 0;
  absl::Status status_;
  std::thread worker_;
};

// An engine thread, a writing thread, a preparing thread and a client that may leave, all at once.
TEST(AnswerStreamThreads, EveryStreamEndsOnceWhateverMeets) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    const int tokens = static_cast<int>(random() % 40);
    const bool leaves = random() % 2 == 0;
    const int leave_after_us = static_cast<int>(random() % 500);
    ThreadedWire wire;
    std::atomic<int> ended{0};
    std::atomic<bool> cancelled{false};
    AnswerStream::Options options;
    options.backlog_bytes = random() % 4 == 0 ? 16 : 1 << 20;
    options.on_ended = [&ended](const auto&, const absl::Status&) { ++ended; };
    const auto stream = std::make_shared<AnswerStream>(&wire, std::move(options));
    wire.Serve(stream, static_cast<int>(random() % 20));
    std::thread prepare([&] {
      if (!stream->Begin()) return stream->Refuse(absl::CancelledError("gone"));
      stream->Expect(1);
      std::thread engine([&] {
        for (int i = 1; i <= tokens && !cancelled; ++i) stream->OnChunk(Chunk(0, "abc", i));
        stream->OnChunk(
            Chunk(0, "", tokens, cancelled ? FinishReason::kCancelled : FinishReason::kStop));
      });
      stream->Accept([&cancelled] { cancelled = true; });
      engine.join();
    });
    std::thread client([&] {
      if (!leaves) return;
      std::this_thread::sleep_for(std::chrono::microseconds(leave_after_us));
      stream->OnGone(absl::CancelledError("left"));
    });
    const absl::Status status = wire.WaitForEnd();
    prepare.join();
    client.join();
    if (status.ok()) {
      EXPECT_EQ(wire.text().size(), static_cast<size_t>(3 * tokens));
      EXPECT_EQ(ended, 1);
    } else {
      EXPECT_TRUE(absl::IsCancelled(status) || absl::IsAborted(status)) << status;
      EXPECT_LE(ended, 1);
    }
  }
}

}  // namespace
}  // namespace sluice::server::rpc
