#include "engine/output_loop.h"

#include <pthread.h>

#include <iterator>
#include <utility>

#include "engine/base/check.h"

namespace sluice::engine {
namespace {

StreamDecoder::Options DecoderOptions(const StopParams& stop) {
  StreamDecoder::Options options;
  options.stop_strings = stop.strings;
  options.include_stop = stop.include_stop_string;
  options.skip_control = stop.skip_special_tokens;
  options.min_tokens = stop.min_tokens;
  return options;
}

}  // namespace

OutputLoop::Answer::Answer(uint64_t id_in, std::shared_ptr<const GenerateRequest> request_in,
                           int32_t choice, std::shared_ptr<OutputSink> sink_in,
                           const Tokenizer* tokenizer)
    : id(id_in),
      request(std::move(request_in)),
      sink(std::move(sink_in)),
      decoder(tokenizer, DecoderOptions(request->stop)) {
  chunk.choice = choice;
  chunk.times.arrival = request->arrival;
}

OutputLoop::OutputLoop(Parts parts) : parts_(std::move(parts)) {
  thread_ = std::thread([this] { Run(); });
}

void OutputLoop::Stop() {
  {
    std::lock_guard lock(mu_);
    stop_ = true;
    posted_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void OutputLoop::Open(uint64_t id, std::shared_ptr<const GenerateRequest> request, int32_t choice,
                      std::shared_ptr<OutputSink> sink) {
  auto answer = std::make_unique<Answer>(id, std::move(request), choice, std::move(sink),
                                         parts_.tokenizer.get());
  // Nobody is woken: there is nothing to do before the first event.
  std::lock_guard lock(mu_);
  pending_.opened.push_back(std::move(answer));
}

void OutputLoop::Post(std::vector<SequenceEvent>* events) {
  if (events->empty()) return;
  std::lock_guard lock(mu_);
  if (pending_.events.empty())
    pending_.events.swap(*events);
  else
    pending_.events.insert(pending_.events.end(), std::make_move_iterator(events->begin()),
                           std::make_move_iterator(events->end()));
  events->clear();
  posted_.notify_one();
}

void OutputLoop::WaitUntilHandled() {
  std::unique_lock lock(mu_);
  handled_.wait(lock, [this] { return pending_.events.empty() && !busy_; });
}

void OutputLoop::Run() {
  pthread_setname_np(pthread_self(), "output");
  Batch batch;
  for (;;) {
    batch.opened.clear();
    batch.events.clear();
    {
      std::unique_lock lock(mu_);
      busy_ = false;
      if (pending_.events.empty()) handled_.notify_all();
      posted_.wait(lock, [this] { return stop_ || !pending_.events.empty(); });
      if (pending_.events.empty()) return;
      std::swap(batch, pending_);
      busy_ = true;
    }
    Handle(&batch);
  }
}

void OutputLoop::Handle(Batch* batch) {
  for (auto& answer : batch->opened) {
    const uint64_t id = answer->id;
    answers_.emplace(id, std::move(answer));
  }
  for (const SequenceEvent& event : batch->events) HandleEvent(event);
  for (Answer* answer : touched_) {
    answer->in_touched = false;
    Deliver(answer);
  }
  touched_.clear();
  for (const uint64_t id : closed_) {
    const auto it = answers_.find(id);
    const std::shared_ptr<const GenerateRequest> request = it->second->request;
    const int32_t generated = it->second->chunk.generated_tokens;
    answers_.erase(it);
    parts_.on_closed(id, *request, generated);
  }
  closed_.clear();
}

void OutputLoop::HandleEvent(const SequenceEvent& event) {
  const auto it = answers_.find(event.id);
  ENGINE_CHECK(it != answers_.end()) << "sequence " << event.id << " is not open";
  Answer* answer = it->second.get();
  // A closed answer waits only for the engine's last event of its sequence.
  if (answer->sink != nullptr && answer->chunk.finish == FinishReason::kNone) {
    answer->chunk.times.scheduled = event.scheduled;
    answer->chunk.cached_tokens = event.cached_tokens;
    if (event.token >= 0) TakeToken(event, answer);
    if (event.finish != FinishReason::kNone && answer->chunk.finish == FinishReason::kNone)
      TakeEnd(event, answer);
    if (!answer->in_touched) {
      answer->in_touched = true;
      touched_.push_back(answer);
    }
  } else if (event.token >= 0 && parts_.observer != nullptr) {
    parts_.observer->OnDiscardedToken();
  }
  if (event.finish != FinishReason::kNone) closed_.push_back(event.id);
}

void OutputLoop::TakeToken(const SequenceEvent& event, Answer* answer) {
  SequenceTimes& times = answer->chunk.times;
  const bool first = answer->chunk.generated_tokens == 0;
  if (first) times.first_token = event.time;
  if (parts_.observer != nullptr) {
    if (first)
      parts_.observer->OnFirstToken(Seconds(event.time - times.arrival),
                                    Seconds(times.scheduled - times.arrival));
    else
      parts_.observer->OnNextToken(Seconds(event.time - times.last_token));
  }
  times.last_token = event.time;
  ++answer->chunk.generated_tokens;
  answer->chunk.token_ids.push_back(event.token);
  if (!event.hidden) TakePiece(answer->decoder.Push(event.token), answer);
  // The engine is told at once: each token it computes from now on is for nothing.
  if (answer->chunk.finish == FinishReason::kStop && event.finish == FinishReason::kNone)
    parts_.on_stop_string(answer->id);
}

void OutputLoop::TakeEnd(const SequenceEvent& event, Answer* answer) {
  TakePiece(answer->decoder.Finish(), answer);
  if (answer->chunk.finish != FinishReason::kNone) return;
  answer->chunk.finish = event.finish;
  if (event.stop_token >= 0) answer->chunk.stop_reason = event.stop_token;
  if (event.error != nullptr) answer->chunk.error = *event.error;
}

void OutputLoop::TakePiece(StreamDecoder::Piece piece, Answer* answer) {
  answer->chunk.text += piece.text;
  if (!piece.stop_matched) return;
  answer->chunk.finish = FinishReason::kStop;
  answer->chunk.stop_reason = std::move(*piece.stop_matched);
}

void OutputLoop::Deliver(Answer* answer) {
  OutputChunk next;  // what goes on from chunk to chunk
  next.choice = answer->chunk.choice;
  next.finish = answer->chunk.finish;
  next.generated_tokens = answer->chunk.generated_tokens;
  next.cached_tokens = answer->chunk.cached_tokens;
  next.times = answer->chunk.times;
  // Told first: a client that has its answer finds it counted.
  if (next.finish != FinishReason::kNone && parts_.observer != nullptr)
    parts_.observer->OnFinished(
        {next.finish, next.times, next.generated_tokens, answer->request.get()});
  answer->sink->OnChunk(std::exchange(answer->chunk, std::move(next)));
  if (answer->chunk.finish != FinishReason::kNone) answer->sink.reset();
}

}  // namespace sluice::engine
