#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/inbox.h"
#include "engine/base/snapshot.h"
#include "engine/output_loop.h"
#include "engine/plan/step_executor.h"
#include "engine/record/flight_recorder.h"
#include "engine/scheduler/scheduler.h"
#include "engine/state.h"

namespace sluice::engine {

// Owns the engine thread, and with it the scheduler: takes messages in, plans, has plans run,
// commits results, and posts what happened to the output loop. It blocks in two places: on the
// inbox when there is nothing to do, and on the executor.
class EngineLoop {
 public:
  struct Parts {
    StepExecutor* executor = nullptr;    // outlives the loop
    OutputLoop* output = nullptr;        // outlives the loop
    EngineObserver* observer = nullptr;  // optional; told of steps
    // On the engine thread, when the executor has failed: no Add may follow its return. After it
    // all sequences end with kError.
    std::function<void()> refuse_all;
    // On the engine thread, once, when all those ends have reached their sinks.
    std::function<void(const absl::Status&)> on_fatal;
  };
  struct Options {
    Scheduler::Options scheduler;
    int32_t depth = 1;  // steps in flight at once
    // What is kept of the scheduler's doings (record/flight_recorder.h), and the file that gets it
    // when the executor fails or a step takes longer than slow_step_seconds (at most once a minute;
    // 0: never). No path: no file.
    size_t record_bytes = 0;
    std::string record_path;
    double slow_step_seconds = 0;
  };
  EngineLoop(Parts parts, Options options);
  ~EngineLoop() { Stop(); }

  // Ends all sequences with kCancelled and joins the thread. Once; what is called later does
  // nothing.
  void Stop();

  // From any thread, none of which ever waits. The caller bounds how many sequences are in here at
  // once, and with them the inbox. Every sequence added ends with one event. False when the loop
  // has stopped.
  bool Add(uint64_t id, std::shared_ptr<const GenerateRequest> request, int32_t choice);
  // Ids that are unknown or have ended are ignored.
  void Finish(uint64_t id, FinishReason reason);
  void FinishAll(FinishReason reason);

  // Shows the engine's state, with at most so many sequences, on the loop's thread between two
  // steps: `see` must be quick. From any thread; does not wait. False, and it is not called, when
  // the loop has stopped.
  using See = std::function<void(EngineState)>;
  bool Look(size_t sequences_max, See see);

  // Writes what is recorded to a file. From any thread but the loop's own, for which it waits.
  absl::Status WriteRecord(const std::string& path);

  EngineStats stats() const { return published_.Read(); }
  int32_t context_tokens() const { return context_tokens_; }

 private:
  struct Message {
    enum class Kind : uint8_t { kAdd, kFinish, kFinishAll, kWriteRecord, kLook };
    Kind kind = Kind::kAdd;
    FinishReason reason = FinishReason::kNone;
    int32_t choice = 0;
    uint64_t id = 0;
    std::shared_ptr<const GenerateRequest> request;
    std::string path;
    std::shared_ptr<std::promise<absl::Status>> done;
    size_t sequences_max = 0;
    See see;
  };

  struct SubmittedStep {
    Clock::time_point begin;
    int32_t sequences = 0;
    int32_t tokens = 0;
  };

  void Run();
  bool TakeMessages(bool wait);
  absl::Status Step();
  StepPlan Plan();
  void Submit(StepPlan plan);
  void RecordSlowStep(double seconds, Clock::time_point now);
  void KeepRecord(const std::string& why);
  void ObserveStep(Clock::time_point now);
  void Publish();
  void Fail(const absl::Status& status);

  const Parts parts_;
  const Options options_;
  Inbox<Message> inbox_;
  Snapshot<EngineStats> published_;

  // The engine thread's from here on.
  Scheduler scheduler_;
  FlightRecorder recorder_;
  Clock::time_point last_slow_record_;
  std::vector<Message> messages_;
  std::vector<SequenceEvent> events_;
  std::deque<SubmittedStep> submitted_;  // as in flight
  Clock::time_point last_result_;

  const int32_t context_tokens_;
  std::thread thread_;
};

}  // namespace sluice::engine
