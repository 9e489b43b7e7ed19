#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/record/flight_recorder.h"
#include "engine/scheduler/scheduler.h"
#include "tests/support/simulated_worker.h"

namespace sluice::testing {

inline constexpr int32_t kEndId = 7;  // ends answers in these tests

// What most of these tests use: 8 slots, 64 tokens a step, blocks of 4.
SimulatedWorker::Options SmallWorker(int32_t kv_blocks, int32_t context_tokens, int32_t vocabulary);
engine::Scheduler::Options SmallOptions(int32_t running_max = 8, int32_t step_tokens = 64);

// A Scheduler and a SimulatedWorker in one thread, with the books of what each sequence was given.
class SchedulerRig {
 public:
  struct Outcome {
    std::shared_ptr<const engine::GenerateRequest> request;
    int32_t choice = 0;
    std::vector<int32_t> tokens;
    engine::FinishReason finish = engine::FinishReason::kNone;
    int32_t ends = 0;
    int32_t stop_token = -1;
    bool hidden = false;
    int32_t events_after_end = 0;
    bool admitted = false;
    int32_t cached_tokens = 0;  // as the last event tells it
    std::string error;
  };

  SchedulerRig(SimulatedWorker::Options worker, engine::Scheduler::Options options);

  uint64_t Add(std::shared_ptr<const engine::GenerateRequest> request, int32_t choice = 0);
  // A greedy request that arrives now, ignores ends and shares its prompt with no other's.
  std::shared_ptr<engine::GenerateRequest> MakeRequest(int32_t prompt_tokens, int32_t max_tokens);
  // A greedy request with this prompt; returns its id.
  uint64_t Add(std::vector<int32_t> prompt, int32_t max_tokens);
  void Cancel(uint64_t id);

  // From here on everything is recorded, if there is a recorder.
  void Record(engine::FlightRecorder* recorder) { recorder_ = recorder; }
  // Plans one step and hands it to the worker; false when the plan is empty.
  bool Plan();
  // Collects the oldest step in flight and commits it.
  void Commit();
  // Plan and commit, with `depth` steps in flight, until nothing is left.
  void RunAll(int32_t depth = 1);

  engine::Clock::time_point Now() const;  // the worker's virtual clock
  // Empty, or the first thing that is wrong: a broken rule, a token lost.
  std::string Check() const;
  // The tokens that a sequence must have got, whatever happened to others.
  std::vector<int32_t> Expected(uint64_t id) const;

  const Outcome& operator[](uint64_t id) const { return outcomes_.at(id); }
  const std::map<uint64_t, Outcome>& outcomes() const { return outcomes_; }
  // Of the plan made last.
  const engine::StepPlan& last_plan() const { return last_plan_; }
  engine::Scheduler& scheduler() { return scheduler_; }
  const engine::Scheduler& scheduler() const { return scheduler_; }
  SimulatedWorker& worker() { return worker_; }

 private:
  void Book();

  SimulatedWorker::Options worker_options_;
  const int32_t step_tokens_;
  const int32_t running_max_;
  SimulatedWorker worker_;
  engine::Scheduler scheduler_;
  std::vector<engine::SequenceEvent> events_;
  std::map<uint64_t, Outcome> outcomes_;
  engine::StepPlan last_plan_;
  std::string error_;
  engine::FlightRecorder* recorder_ = nullptr;
  uint64_t last_id_ = 0;
  int32_t last_token_ = 0;  // of the prompts that were made
};

}  // namespace sluice::testing
