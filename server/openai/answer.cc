#include "server/openai/answer.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "engine/base/log.h"
#include "server/models/finish_name.h"

namespace sluice::server::openai {
namespace {

using engine::FinishReason;

class PromptSink : public engine::OutputSink {
 public:
  using Callback = std::function<void(engine::OutputChunk)>;
  explicit PromptSink(Callback callback) : callback_(std::move(callback)) {}
  void OnChunk(engine::OutputChunk chunk) override { callback_(std::move(chunk)); }

 private:
  const Callback callback_;
};

double Milliseconds(std::chrono::steady_clock::duration d) {
  return std::chrono::duration<double, std::milli>(d).count();
}

}  // namespace

Answer::Answer(Setup setup, std::shared_ptr<Exchange> exchange, engine::Engine* engine,
               FrontendPool* pool)
    : setup_(std::move(setup)),
      exchange_(std::move(exchange)),
      engine_(engine),
      pool_(pool),
      writer_(setup_.facts),
      progress_(setup_.prompts.size() * static_cast<size_t>(setup_.n)),
      unfinished_(progress_.size()) {
  for (const auto& prompt : setup_.prompts) prompt_tokens_ += static_cast<int64_t>(prompt.size());
}

std::shared_ptr<engine::OutputSink> Answer::Sink(int32_t prompt) {
  return std::make_shared<PromptSink>(
      [self = shared_from_this(), prompt](engine::OutputChunk chunk) {
        self->OnChunk(prompt, std::move(chunk));
      });
}

void Answer::EndWithoutTokens() {
  for (size_t prompt = 0; prompt < setup_.prompts.size(); ++prompt) {
    for (int32_t choice = 0; choice < setup_.n; ++choice) {
      engine::OutputChunk chunk;
      chunk.choice = choice;
      chunk.finish = FinishReason::kLength;
      OnChunk(static_cast<int32_t>(prompt), std::move(chunk));
    }
  }
}

void Answer::Open() {
  {
    std::lock_guard lock(mutex_);
    state_ = State::kOpen;
    for (auto& [prompt, chunk] : std::exchange(early_, {})) Take(prompt, std::move(chunk));
  }
  // Not under the mutex: called at once when the client is gone already.
  exchange_->OnGone([engine = engine_, request = id()] { engine->Cancel(request); });
}

void Answer::Abort() {
  {
    std::lock_guard lock(mutex_);
    state_ = State::kAborted;
    early_.clear();
  }
  engine_->Cancel(id());
}

void Answer::OnChunk(int32_t prompt, engine::OutputChunk chunk) {
  std::lock_guard lock(mutex_);
  if (state_ == State::kWaiting) {
    early_.emplace_back(prompt, std::move(chunk));
  } else {
    Take(prompt, std::move(chunk));
  }
}

Usage Answer::CurrentUsage() const { return {prompt_tokens_, generated_, cached_}; }

void Answer::Take(int32_t prompt, engine::OutputChunk chunk) {
  const int32_t index = prompt * setup_.n + chunk.choice;
  Progress& progress = progress_[static_cast<size_t>(index)];
  generated_ += chunk.generated_tokens - progress.generated;
  progress.generated = chunk.generated_tokens;
  // Of a prompt, what its first answer found: the others share what that one computes.
  if (chunk.choice == 0) {
    cached_ += chunk.cached_tokens - progress.cached;
    progress.cached = chunk.cached_tokens;
  }
  progress.times = chunk.times;
  progress.finish = chunk.finish;
  if (chunk.finish != FinishReason::kNone) --unfinished_;
  if (state_ == State::kOpen) {
    if (chunk.finish == FinishReason::kError) {
      if (streaming_ && !chunk.text.empty()) {
        events_.clear();
        writer_.Text(&events_, index, chunk.text, chunk.token_ids, CurrentUsage());
        exchange_->Write(events_);
      }
      Fail({500, "the engine failed: " + chunk.error, "", "internal_error"});
    } else if (chunk.finish == FinishReason::kCancelled && !exchange_->gone()) {
      Fail({503, "the server is shutting down", "", "draining"});
    } else if (setup_.stream) {
      StreamChunk(prompt, index, chunk);
    } else {
      progress.text += chunk.text;
      progress.token_ids.insert(progress.token_ids.end(), chunk.token_ids.begin(),
                                chunk.token_ids.end());
      progress.stop_reason = std::move(chunk.stop_reason);
    }
  }
  if (unfinished_ == 0) Complete();
}

void Answer::StreamChunk(int32_t prompt, int32_t index, const engine::OutputChunk& chunk) {
  if (chunk.finish == FinishReason::kCancelled) return;
  Progress& progress = progress_[static_cast<size_t>(index)];
  const Usage usage = CurrentUsage();
  const bool ids = setup_.facts.return_token_ids;
  events_.clear();
  // The head waits for the first chunk: what fails before it still gets a status of its own.
  if (!std::exchange(streaming_, true)) exchange_->StartEvents();
  if (!std::exchange(progress.begun, true)) {
    const auto& prompt_ids = setup_.prompts[static_cast<size_t>(prompt)];
    if (setup_.facts.endpoint == Endpoint::kChat || ids) {
      writer_.Role(&events_, index, ids ? &prompt_ids : nullptr, usage);
    }
    if (!setup_.echoes.empty()) {
      writer_.Text(&events_, index, setup_.echoes[static_cast<size_t>(prompt)], {}, usage);
    }
  }
  const bool finished = chunk.finish != FinishReason::kNone;
  const bool text_event = !chunk.text.empty() || (ids && !finished && !chunk.token_ids.empty());
  if (text_event) writer_.Text(&events_, index, chunk.text, chunk.token_ids, usage);
  // Clients stop reading text at the finish reason, so it comes in an event without any.
  if (finished) {
    writer_.Finish(&events_, index, chunk.finish, chunk.stop_reason,
                   text_event ? std::vector<int32_t>() : chunk.token_ids, usage);
  }
  if (unfinished_ == 0) {
    if (setup_.facts.include_usage) writer_.FinalUsage(&events_, usage);
    AnswerWriter::Done(&events_);
  }
  if (!events_.empty()) exchange_->Write(events_);
}

void Answer::Fail(const ApiError& error) {
  state_ = State::kFailed;
  status_ = error.status;
  if (streaming_) {
    events_.clear();
    AnswerWriter::Error(&events_, ErrorJson(error));
    exchange_->Write(events_);
    exchange_->Finish();
  } else {
    exchange_->Reply(ErrorResponse(error));
  }
  if (unfinished_ > 0) engine_->Cancel(id());
}

void Answer::Complete() {
  if (state_ == State::kAborted) return;
  const bool good = state_ == State::kOpen;
  state_ = State::kDone;
  if (good && exchange_->gone()) status_ = 499;
  const bool reply = good && status_ == 200 && !setup_.stream;
  if (good && status_ == 200 && setup_.stream) exchange_->Finish();
  // Rendering a large body and writing to a log take a while, and the output thread serves all.
  pool_->Post([self = shared_from_this(), reply] {
    std::lock_guard lock(self->mutex_);
    if (reply) self->SendBody();
    self->LogLine(self->status_);
  });
}

void Answer::SendBody() {
  std::vector<Choice> choices;
  for (size_t i = 0; i < progress_.size(); ++i) {
    const size_t prompt = i / static_cast<size_t>(setup_.n);
    Progress& progress = progress_[i];
    Choice choice;
    choice.index = static_cast<int32_t>(i);
    if (!setup_.echoes.empty()) choice.text = setup_.echoes[prompt];
    choice.text += progress.text;
    choice.token_ids = std::move(progress.token_ids);
    choice.finish = progress.finish;
    choice.stop_reason = std::move(progress.stop_reason);
    if (setup_.facts.return_token_ids) choice.prompt_ids = &setup_.prompts[prompt];
    choices.push_back(std::move(choice));
  }
  HttpResponse response;
  response.body = writer_.Body(choices, CurrentUsage());
  exchange_->Reply(std::move(response));
}

void Answer::LogLine(int status) const {
  const auto now = std::chrono::steady_clock::now();
  double queued = -1;
  double first = -1;
  std::string reasons;
  for (const Progress& progress : progress_) {
    const auto earliest = [&](double* best, std::chrono::steady_clock::time_point at) {
      if (at == std::chrono::steady_clock::time_point{}) return;
      const double ms = Milliseconds(at - setup_.arrival);
      if (*best < 0 || ms < *best) *best = ms;
    };
    earliest(&queued, progress.times.scheduled);
    earliest(&first, progress.times.first_token);
    const std::string_view name = FinishName(progress.finish);
    if (reasons.find(name) == std::string::npos) {
      if (!reasons.empty()) reasons += ',';
      reasons += name;
    }
  }
  SLUICE_LOG_EVENT(kInfo, "request")
      .Word("id", id())
      .Word("http_id", exchange_->request().id)
      .Text("model", setup_.facts.model)
      .Number("stream", setup_.stream ? 1 : 0)
      .Number("prompts", setup_.prompts.size())
      .Number("n", setup_.n)
      .Number("prompt_tokens", prompt_tokens_)
      .Number("generated", generated_)
      .Number("queue_ms", queued, 1)
      .Number("ttft_ms", first, 1)
      .Number("total_ms", Milliseconds(now - setup_.arrival), 1)
      .Word("finish", reasons)
      .Number("status", status);
}

}  // namespace sluice::server::openai
