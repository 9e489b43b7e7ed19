#include "engine/simulate/recording.h"

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/record/replay.h"

namespace sluice::engine {
namespace {

class Listener : public ReplayWatcher {
 public:
  explicit Listener(const LatencyTargets& targets) : book_(targets) {}

  void OnOptions(const ExecutorLimits& limits, const Scheduler::Options& options) override {
    recording_.limits = limits;
    recording_.scheduler = options;
  }

  void OnAdd(uint64_t id, const std::shared_ptr<const GenerateRequest>& request,
             int32_t choice) override {
    book_.OnArrival(id, request->arrival, static_cast<int32_t>(request->prompt.size()));
    index_of_[id] = recording_.answers.size();
    recording_.answers.push_back({request, choice, {}, FinishReason::kNone, false, {}});
    // A request that woke the engine was planned as soon as it was known.
    if (idle_) waking_.push_back(request->arrival);
  }

  void OnPlan(const StepPlan& plan, Clock::time_point now, const Scheduler& scheduler) override {
    for (const Clock::time_point arrival : waking_) Keep(Seconds(now - arrival), &admissions_);
    waking_.clear();
    idle_ = false;
    if (busy_since_ != Clock::time_point()) Keep(Seconds(now - busy_since_), &turnarounds_);
    busy_since_ = Clock::time_point();
    book_.OnState(scheduler.stats(), now);
    if (plan.step == 0) return;
    planned_.push_back({now, WorkOf(plan)});
    recording_.depth = std::max(recording_.depth, static_cast<int32_t>(planned_.size()));
  }

  void OnCommit(const StepResult& result, Clock::time_point now,
                const Scheduler& scheduler) override {
    const Planned step = planned_.front();
    planned_.pop_front();
    // With several in flight, a step waits for the one before it.
    const Clock::time_point start = std::max(step.time, last_commit_);
    const double whole = Seconds(now - start);
    if (recording_.steps.empty()) first_start_ = start;
    last_commit_ = now;
    idle_ = !scheduler.has_sequences() && planned_.empty();
    if (!idle_) busy_since_ = now;
    book_.OnState(scheduler.stats(), now);
    if (!(result.seconds > 0 && result.seconds < kStepSecondsMax)) return;
    Keep(whole - result.seconds, &handoffs_);
    recording_.steps.push_back({step.work, result.seconds, StartOf(start)});
    book_.OnStep(step.work.tokens, result.seconds);
  }

  void OnEvents(const std::vector<SequenceEvent>& events) override {
    book_.OnEvents(events);
    for (const SequenceEvent& event : events) {
      RecordedAnswer& answer = recording_.answers[index_of_.at(event.id)];
      if (event.token >= 0) answer.tokens.push_back(event.token);
      if (event.finish == FinishReason::kNone) continue;
      answer.finish = event.finish;
      answer.end = event.time;
      answer.ended_by_token = event.token >= 0;
    }
  }

  Recording Close() {
    recording_.figures = book_.Close();
    recording_.overheads.handoff = Samples(std::move(handoffs_));
    recording_.overheads.turnaround = Samples(std::move(turnarounds_));
    recording_.overheads.admission = MedianOf(std::move(admissions_));
    return std::move(recording_);
  }

 private:
  // Never less than the last one, whatever the record says.
  double StartOf(Clock::time_point start) const {
    const double seconds = Seconds(start - first_start_);
    return recording_.steps.empty() ? seconds : std::max(seconds, recording_.steps.back().start);
  }
  static void Keep(double seconds, std::vector<double>* samples) {
    samples->push_back(std::clamp(seconds, 0.0, kStepSecondsMax));
  }

  struct Planned {
    Clock::time_point time;
    StepWork work;
  };
  Recording recording_;
  FigureBook book_;
  std::unordered_map<uint64_t, size_t> index_of_;
  std::deque<Planned> planned_;  // in flight
  bool idle_ = true;
  std::vector<Clock::time_point> waking_;
  Clock::time_point last_commit_ = Clock::time_point::min();
  Clock::time_point first_start_;  // of the observed steps
  Clock::time_point busy_since_;   // of a commit after which something is to be planned
  std::vector<double> handoffs_, turnarounds_, admissions_;
};

}  // namespace

absl::StatusOr<Recording> ReadRecording(std::string_view bytes, const LatencyTargets& targets) {
  Listener listener(targets);
  SLUICE_ASSIGN_OR_RETURN(const ReplayReport report, Replay(bytes, &listener));
  if (report.different > 0)
    return InvalidArgument(absl::StrCat(report.different,
                                        " plans come out otherwise than recorded (another version "
                                        "wrote it), the first at ",
                                        report.first_difference));
  return listener.Close();
}

}  // namespace sluice::engine
