#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/request.h"
#include "server/admission/in_flight.h"
#include "server/base/frontend_pool.h"
#include "server/http/exchange.h"
#include "server/openai/answer_writer.h"
#include "server/openai/api_error.h"

namespace sluice::server::openai {

// One HTTP request's way from engine chunks to the wire: as a stream of events, or collected into
// one body. Holds the state of all its answers, n for each prompt.
//
// Chunks come on the engine's output thread; Open and Abort on the frontend pool. The mutex orders
// the two: chunks that come before Open wait, so that nothing is sent before all prompts were
// accepted.
class Answer : public std::enable_shared_from_this<Answer> {
 public:
  struct Setup {
    AnswerFacts facts;
    bool stream = false;
    int32_t n = 1;
    std::vector<std::vector<int32_t>> prompts;  // ids
    std::vector<std::string> echoes;            // text before each prompt's answers; empty: none
    std::chrono::steady_clock::time_point arrival;
    std::shared_ptr<InFlight::Ticket> ticket;  // kept until the answer is made
  };
  // `engine` and `pool` outlive the answer's use of them (the daemon ends the front first).
  Answer(Setup setup, std::shared_ptr<Exchange> exchange, engine::Engine* engine,
         FrontendPool* pool);

  // Where the chunks of one prompt go.
  std::shared_ptr<engine::OutputSink> Sink(int32_t prompt);
  // The engine's id of all prompts of this request: one Cancel ends them all.
  const std::string& id() const { return setup_.facts.id; }

  // Each answer ends at once at its length of 0 tokens: instead of submitting.
  void EndWithoutTokens();
  // All prompts are submitted.
  void Open();
  // Not all could be: the caller answers with an error, whatever still comes is dropped.
  void Abort();

 private:
  struct Progress {
    std::string text;  // not streamed: all so far
    std::vector<int32_t> token_ids;
    bool begun = false;  // the role event is out
    int32_t generated = 0;
    int32_t cached = 0;
    engine::FinishReason finish = engine::FinishReason::kNone;
    StopReason stop_reason;
    engine::SequenceTimes times;
  };
  enum class State { kWaiting, kOpen, kFailed, kAborted, kDone };

  void OnChunk(int32_t prompt, engine::OutputChunk chunk);
  // All below under the mutex.
  void Take(int32_t prompt, engine::OutputChunk chunk);
  void StreamChunk(int32_t prompt, int32_t index, const engine::OutputChunk& chunk);
  void Complete();
  void SendBody();
  void Fail(const ApiError& error);
  void LogLine(int status) const;
  Usage CurrentUsage() const;

  const Setup setup_;
  const std::shared_ptr<Exchange> exchange_;
  engine::Engine* const engine_;
  FrontendPool* const pool_;
  const AnswerWriter writer_;
  int64_t prompt_tokens_ = 0;

  std::mutex mutex_;
  State state_ = State::kWaiting;
  std::vector<std::pair<int32_t, engine::OutputChunk>> early_;
  std::vector<Progress> progress_;
  size_t unfinished_ = 0;
  int64_t cached_ = 0;  // of the prompts' tokens, found in memory
  int64_t generated_ = 0;
  bool streaming_ = false;  // the head is out
  int status_ = 200;
  std::string events_;  // reused for each chunk
};

}  // namespace sluice::server::openai
