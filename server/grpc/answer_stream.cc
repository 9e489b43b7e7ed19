#include "server/grpc/answer_stream.h"

#include <utility>

namespace sluice::server::rpc {
namespace {

using engine::FinishReason;

size_t BytesOf(const AnswerDelta& delta) {
  return delta.text.size() + delta.token_ids.size() * sizeof(int32_t);
}

}  // namespace

AnswerStream::AnswerStream(StreamWire* wire, Options options)
    : options_(std::move(options)), wire_(wire) {}

bool AnswerStream::Begin() {
  std::lock_guard lock(mutex_);
  return !given_up_;
}

void AnswerStream::Expect(int32_t answers) {
  std::lock_guard lock(mutex_);
  unfinished_ = answers;
  progress_.resize(static_cast<size_t>(answers));
  waiting_.resize(static_cast<size_t>(answers));
}

void AnswerStream::Accept(std::function<void()> cancel) {
  std::unique_lock lock(mutex_);
  preparing_ = false;
  cancel_ = std::move(cancel);
  const std::function<void()> now = TakeCancel();
  Pump();
  lock.unlock();
  if (now) now();
}

void AnswerStream::Refuse(const absl::Status& status) {
  std::lock_guard lock(mutex_);
  preparing_ = false;
  unfinished_ = 0;
  End(status);
  Pump();
}

void AnswerStream::OnChunk(engine::OutputChunk chunk) {
  std::unique_lock lock(mutex_);
  Take(std::move(chunk));
  const std::function<void()> cancel = TakeCancel();
  const bool all = unfinished_ == 0;
  const absl::Status status = status_;
  Pump();
  lock.unlock();
  if (cancel) cancel();
  // Every answer has ended: nothing else writes to progress_ any more.
  if (all && options_.on_ended) options_.on_ended(progress_, status);
}

void AnswerStream::OnWritten(bool ok) {
  std::unique_lock lock(mutex_);
  writing_ = false;
  if (!ok) GiveUp(absl::CancelledError("the client is gone"));
  const std::function<void()> cancel = TakeCancel();
  Pump();
  lock.unlock();
  if (cancel) cancel();
}

void AnswerStream::OnGone(const absl::Status& status) {
  std::unique_lock lock(mutex_);
  GiveUp(status);
  const std::function<void()> cancel = TakeCancel();
  Pump();
  lock.unlock();
  if (cancel) cancel();
}

void AnswerStream::Take(engine::OutputChunk chunk) {
  AnswerProgress& progress = progress_[static_cast<size_t>(chunk.choice)];
  generated_ += chunk.generated_tokens - progress.generated;
  progress.generated = chunk.generated_tokens;
  if (chunk.choice == 0) cached_ = chunk.cached_tokens;
  progress.times = chunk.times;
  progress.finish = chunk.finish;
  if (chunk.finish != FinishReason::kNone) --unfinished_;
  if (ended_) return;
  switch (chunk.finish) {
    case FinishReason::kError: {
      const absl::Status status = engine::Internal("the engine failed: " + chunk.error);
      chunk.finish = FinishReason::kNone;
      Append(std::move(chunk));
      End(status);
      return;
    }
    case FinishReason::kCancelled:  // not by this client, which would have ended the stream
      End(engine::Unavailable("the server is shutting down"));
      return;
    case FinishReason::kExpired:
      End(absl::DeadlineExceededError("the call's deadline has passed"));
      return;
    case FinishReason::kNone:
    case FinishReason::kStop:
    case FinishReason::kLength:
      break;
  }
  Append(std::move(chunk));
  if (unfinished_ == 0) End(absl::OkStatus());
}

void AnswerStream::Append(engine::OutputChunk chunk) {
  const bool says_nothing =
      chunk.text.empty() && chunk.token_ids.empty() && chunk.finish == FinishReason::kNone;
  if (says_nothing) return;
  AnswerDelta& delta = waiting_[static_cast<size_t>(chunk.choice)];
  if (BytesOf(delta) == 0 && delta.finish == FinishReason::kNone) order_.push_back(chunk.choice);
  waiting_bytes_ -= BytesOf(delta);
  delta.index = chunk.choice;
  delta.text += chunk.text;
  delta.token_ids.insert(delta.token_ids.end(), chunk.token_ids.begin(), chunk.token_ids.end());
  delta.finish = chunk.finish;
  delta.stop_reason = std::move(chunk.stop_reason);
  delta.cached_tokens = cached_;
  waiting_bytes_ += BytesOf(delta);
  // One delta alone may be written, however large.
  if (waiting_bytes_ <= options_.backlog_bytes || !writing_) return;
  GiveUp(absl::AbortedError(engine::ToAbsl(
      "the client reads too slowly: " + std::to_string(waiting_bytes_) +
      " bytes wait for it, at most " + std::to_string(options_.backlog_bytes) + " may")));
  if (!finished_) wire_->Abandon();
}

void AnswerStream::End(const absl::Status& status) {
  if (ended_) return;
  ended_ = true;
  status_ = status;
}

void AnswerStream::GiveUp(const absl::Status& status) {
  if (finished_) return;
  // An end that could not be told to the client any more was none.
  if (!given_up_ && (!ended_ || status_.ok())) status_ = status;
  ended_ = true;
  given_up_ = true;
  order_.clear();
  waiting_.clear();
  waiting_bytes_ = 0;
}

std::function<void()> AnswerStream::TakeCancel() {
  if (!ended_ || unfinished_ == 0) return nullptr;
  return std::exchange(cancel_, nullptr);
}

void AnswerStream::Pump() {
  if (writing_ || finished_) return;
  if (!order_.empty()) {
    const auto index = static_cast<size_t>(order_.front());
    order_.pop_front();
    AnswerDelta delta = std::exchange(waiting_[index], {});
    waiting_bytes_ -= BytesOf(delta);
    const bool last = ended_ && status_.ok() && order_.empty();
    writing_ = true;
    wire_->Write(std::move(delta), last ? generated_ : -1);
    return;
  }
  if (!ended_ || preparing_) return;
  finished_ = true;
  cancel_ = nullptr;
  wire_->Finish(status_);
}

}  // namespace sluice::server::rpc
