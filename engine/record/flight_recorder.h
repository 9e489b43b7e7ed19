#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "engine/base/status.h"
#include "engine/record/record_codec.h"

namespace sluice::engine {

// Keeps the last of what the scheduler was told and a digest of what it planned, in a bounded
// amount of memory, so that what happened can be looked at and run again (replay.h). As long as
// nothing had to be dropped, a record reproduces every plan exactly.
//
// It holds the prompts' tokens: whoever reads it can read the prompts.
//
// Engine thread only. Costs about what copying the prompts costs.
class FlightRecorder {
 public:
  // `bytes_max`: of records; 0 records nothing.
  FlightRecorder(size_t bytes_max, const ExecutorLimits& limits, const Scheduler::Options& options);

  void OnAdd(uint64_t id, const GenerateRequest& request, int32_t choice);
  void OnFinish(uint64_t id, FinishReason reason, Clock::time_point now);
  void OnFinishAll(FinishReason reason, Clock::time_point now);
  void OnExpire(Clock::time_point now);
  void OnPlan(const StepPlan& plan, Clock::time_point now);
  void OnCommit(const StepResult& result, Clock::time_point now);

  bool on() const { return bytes_max_ > 0; }
  bool complete() const { return !dropped_; }
  size_t bytes() const { return bytes_; }
  std::string Contents() const;
  // Writes a file: whole, or not at all.
  absl::Status WriteTo(const std::string& path) const;

 private:
  record::Writer Begin();
  void End(record::Kind kind);

  const size_t bytes_max_;
  std::string options_;
  std::deque<std::string> segments_;  // whole records; the oldest goes first
  size_t bytes_ = 0;
  bool dropped_ = false;
  std::string scratch_;
};

}  // namespace sluice::engine
