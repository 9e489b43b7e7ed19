#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <variant>
#include <vector>

#include "engine/base/status.h"
#include "engine/request.h"

namespace sluice::server::rpc {

using engine::StopReason;

// What has become of one answer since it was last written.
struct AnswerDelta {
  int32_t index = 0;
  std::string text;
  std::vector<int32_t> token_ids;
  engine::FinishReason finish = engine::FinishReason::kNone;
  StopReason stop_reason;
  int32_t cached_tokens = 0;  // of the prompt, found in memory by the first answer
};

// What carries a stream to its client. Called with the stream's lock held, so it must not call the
// stream on the same thread.
class StreamWire {
 public:
  virtual ~StreamWire() = default;
  // One at a time: the next only after OnWritten. `generated`: tokens of all answers, when this is
  // the stream's last delta; else negative.
  virtual void Write(AnswerDelta delta, int64_t generated) = 0;
  // Once, when nothing is being written and nobody prepares the call; the wire may be gone from
  // then on.
  virtual void Finish(const absl::Status& status) = 0;
  // Gives the call up: a write under way is to end at once, as failed.
  virtual void Abandon() = 0;
};

// How one answer went, for the log.
struct AnswerProgress {
  int32_t generated = 0;
  engine::FinishReason finish = engine::FinishReason::kNone;
  engine::SequenceTimes times;
};

// One call's way from engine chunks to the wire: a mailbox with one write under way at most. What
// comes meanwhile is merged, by answer, and leaves in the next writes. Knows no gRPC.
//
// Threads: OnChunk on the engine's output thread, Begin to Accept or Refuse on the frontend pool,
// the others on gRPC's. All may be called at the same time; none waits.
//
// The call's life: preparing (a task on the pool works with what the call holds, which must
// therefore stay), then answering; `Finish` comes once that is over and nothing is being written.
class AnswerStream : public engine::OutputSink {
 public:
  struct Options {
    size_t backlog_bytes = 256 << 10;  // of deltas that wait for a slow reader; more: abandoned
    // When every answer has ended in the engine; `status` is what the client was told. On the
    // thread that brought the last chunk, without the lock. May be null.
    std::function<void(const std::vector<AnswerProgress>&, const absl::Status& status)> on_ended;
  };
  // `wire` outlives the stream's use of it, which ends with Finish.
  AnswerStream(StreamWire* wire, Options options);

  // The pool has begun with the call. False: the client is gone, so it need do nothing but Refuse.
  bool Begin();
  // The request with so many answers is about to be submitted.
  void Expect(int32_t answers);
  // It was. `cancel` ends it in the engine; it is called at most once, without the lock, when the
  // client leaves before its end.
  void Accept(std::function<void()> cancel);
  // It was not: the call ends with `status`, which is not OK.
  void Refuse(const absl::Status& status);

  void OnChunk(engine::OutputChunk chunk) override;
  void OnWritten(bool ok);
  // The client left, or its time is over.
  void OnGone(const absl::Status& status);

 private:
  // All below under the lock.
  void Take(engine::OutputChunk chunk);
  void Append(engine::OutputChunk chunk);
  // Nothing more comes for the client; what waits is still written.
  void End(const absl::Status& status);
  // Nothing more is written.
  void GiveUp(const absl::Status& status);
  void Pump();
  std::function<void()> TakeCancel();

  const Options options_;
  std::mutex mutex_;
  StreamWire* const wire_;
  bool preparing_ = true;
  bool writing_ = false;
  bool ended_ = false;
  bool given_up_ = false;
  bool finished_ = false;
  absl::Status status_;  // of the end
  std::function<void()> cancel_;

  std::vector<AnswerProgress> progress_;
  int32_t unfinished_ = 0;
  int32_t cached_ = 0;
  int64_t generated_ = 0;
  std::vector<AnswerDelta> waiting_;  // by answer
  std::deque<int32_t> order_;         // answers with something waiting, oldest first
  size_t waiting_bytes_ = 0;
};

}  // namespace sluice::server::rpc
