#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "engine/output/stream_decoder.h"
#include "engine/request.h"
#include "engine/sequence.h"
#include "engine/stats.h"
#include "engine/tokenizer/tokenizer.h"

namespace sluice::engine {

// Owns the output thread, which turns tokens into text, finds stop strings, and hands chunks to
// sinks and latencies to the observer. Post never waits: what piles up while the thread is busy is
// taken all at once and reaches each sink as one chunk. The pile is bounded by what the open
// answers may still hold.
class OutputLoop {
 public:
  struct Parts {
    std::shared_ptr<const Tokenizer> tokenizer;
    EngineObserver* observer = nullptr;  // optional
    // Both on the output thread. A stop string has ended the answer of this sequence (its last
    // chunk goes out now): the engine need not go on with it.
    std::function<void(uint64_t id)> on_stop_string;
    // The engine is done with the sequence, and its final chunk is out.
    std::function<void(uint64_t id, const GenerateRequest& request, int32_t generated_tokens)>
        on_closed;
  };
  explicit OutputLoop(Parts parts);
  ~OutputLoop() { Stop(); }

  // Handles all that was posted, then joins the thread. Once.
  void Stop();

  // Any thread. Before the first event of sequence `id` is posted.
  void Open(uint64_t id, std::shared_ptr<const GenerateRequest> request, int32_t choice,
            std::shared_ptr<OutputSink> sink);
  // Takes all of `events`, which is empty afterwards.
  void Post(std::vector<SequenceEvent>* events);
  // Returns once all that was posted before has been handled.
  void WaitUntilHandled();

 private:
  struct Answer {
    uint64_t id;
    std::shared_ptr<const GenerateRequest> request;
    std::shared_ptr<OutputSink> sink;  // null once the final chunk is out
    StreamDecoder decoder;
    OutputChunk chunk;  // in the making
    bool in_touched = false;

    Answer(uint64_t id_in, std::shared_ptr<const GenerateRequest> request_in, int32_t choice,
           std::shared_ptr<OutputSink> sink_in, const Tokenizer* tokenizer);
  };
  struct Batch {
    std::vector<std::unique_ptr<Answer>> opened;
    std::vector<SequenceEvent> events;
    bool empty() const { return opened.empty() && events.empty(); }
  };

  void Run();
  void Handle(Batch* batch);
  void HandleEvent(const SequenceEvent& event);
  void TakeToken(const SequenceEvent& event, Answer* answer);
  void TakeEnd(const SequenceEvent& event, Answer* answer);
  void TakePiece(StreamDecoder::Piece piece, Answer* answer);
  void Deliver(Answer* answer);

  const Parts parts_;
  std::unordered_map<uint64_t, std::unique_ptr<Answer>> answers_;  // output thread
  std::vector<Answer*> touched_;  // of this batch: there is a chunk to deliver
  std::vector<uint64_t> closed_;  // of this batch

  std::mutex mu_;
  std::condition_variable posted_;
  std::condition_variable handled_;
  Batch pending_;
  bool busy_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace sluice::engine
