#include "engine/simulate/simulator.h"

#include <algorithm>
#include <compare>
#include <functional>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/simulate/virtual_worker.h"

namespace sluice::engine {
namespace {

constexpr int32_t kSlotsMax = 1 << 16;
constexpr int32_t kDepthMax = 2;
// A virtual clock that passes this stands for a load or a cost that was not meant.
constexpr std::chrono::hours kLongest{24 * 365 * 200};

absl::Status Check(const SimulatedServer& server) {
  const ExecutorLimits& limits = server.limits;
  const auto in = [](const char* name, int64_t value, int64_t low, int64_t high) {
    return value >= low && value <= high
               ? absl::OkStatus()
               : InvalidArgument(
                     absl::StrCat(name, " = ", value, " is not in [", low, ", ", high, "]"));
  };
  SLUICE_RETURN_IF_ERROR(in("slots", limits.slots, 1, kSlotsMax));
  SLUICE_RETURN_IF_ERROR(in("running answers", server.scheduler.running_max, 1, kSlotsMax));
  SLUICE_RETURN_IF_ERROR(in("tokens of a step", limits.step_tokens, 1, INT32_MAX));
  SLUICE_RETURN_IF_ERROR(in("the step budget", server.scheduler.step_tokens, 1, INT32_MAX));
  SLUICE_RETURN_IF_ERROR(in("KV blocks", limits.kv_blocks, 1, kKvTokensMax));
  SLUICE_RETURN_IF_ERROR(in("tokens of a block", limits.block_size, 1, 1 << 12));
  SLUICE_RETURN_IF_ERROR(in("tokens of all KV blocks",
                            int64_t{limits.kv_blocks} * limits.block_size, 2, kKvTokensMax));
  SLUICE_RETURN_IF_ERROR(in("context", limits.context_tokens, 2, INT32_MAX));
  return in("steps in flight", server.depth, 1, kDepthMax);
}

class Simulation {
 public:
  Simulation(const SimulatedServer& server, const SimulationOptions& options,
             const Workload& workload)
      : server_(server),
        workload_(workload),
        scheduler_(server.limits, server.scheduler),
        book_(options.targets),
        walk_(options.seed, server.time.starts()),
        scatter_(options.scatter ? &walk_ : nullptr),
        worker_({&server.time, &server.overheads, &workload, scatter_}, server.limits.slots),
        tokens_of_(workload.size()) {}

  absl::StatusOr<RunFigures> Run();

 private:
  // Answers are sequences of the number after theirs.
  static uint64_t IdOf(size_t answer) { return answer + 1; }
  struct Arrival {
    Clock::time_point time;
    size_t answer = 0;
    auto operator<=>(const Arrival&) const = default;
  };
  Clock::time_point KnownAt(const Arrival& arrival) const {
    return arrival.time + DurationOf(server_.overheads.admission);
  }
  std::optional<Arrival> NextArrival();
  void Take(const Arrival& arrival);
  void AddArrivals();
  void LetFollow(size_t answer, Clock::time_point end);
  void CutShort();
  void PlanSteps();
  absl::Status FinishStep();
  double TurnaroundSeconds();
  void Deliver();

  const SimulatedServer& server_;
  const Workload& workload_;
  Scheduler scheduler_;
  FigureBook book_;
  ScatterWalk walk_;
  ScatterWalk* const scatter_;
  VirtualWorker worker_;
  std::vector<int32_t> tokens_of_;  // given so far, by answer
  std::vector<size_t> cuts_;        // answers that are due to end
  std::vector<SequenceEvent> events_;
  size_t next_ = 0;  // to arrive, of those that follow none
  std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> following_;
  Clock::time_point now_;
};

std::optional<Simulation::Arrival> Simulation::NextArrival() {
  while (next_ < workload_.size() && workload_.Follows(next_)) ++next_;
  std::optional<Arrival> next;
  if (next_ < workload_.size()) next = Arrival{workload_.Arrival(next_), next_};
  if (!following_.empty() && (!next || following_.top() < *next)) next = following_.top();
  return next;
}

void Simulation::Take(const Arrival& arrival) {
  if (workload_.Follows(arrival.answer))
    following_.pop();
  else
    ++next_;
}

void Simulation::AddArrivals() {
  const int64_t open_max = int64_t{server_.scheduler.running_max} + server_.waiting_max;
  for (auto next = NextArrival(); next && KnownAt(*next) <= now_; next = NextArrival()) {
    Take(*next);
    if (book_.open() >= open_max) {
      book_.OnRefusal(next->time);
      LetFollow(next->answer, now_);
      continue;
    }
    auto request = workload_.Request(next->answer, next->time);
    const uint64_t id = IdOf(next->answer);
    book_.OnArrival(id, request->arrival, static_cast<int32_t>(request->prompt.size()));
    scheduler_.Add(id, std::move(request), workload_.Choice(next->answer));
  }
}

void Simulation::LetFollow(size_t answer, Clock::time_point end) {
  for (const Workload::Follower& follower : workload_.FollowersOf(answer))
    following_.push({end + DurationOf(follower.seconds), follower.answer});
}

void Simulation::CutShort() {
  for (const size_t answer : cuts_)
    scheduler_.Finish(IdOf(answer), workload_.CutOf(answer).reason, now_, &events_);
  cuts_.clear();
}

void Simulation::PlanSteps() {
  while (scheduler_.steps_in_flight() < server_.depth) {
    StepPlan plan = scheduler_.Plan(now_);
    if (plan.empty()) break;
    worker_.Submit(std::move(plan), now_);
  }
  book_.OnState(scheduler_.stats(), now_);
}

absl::Status Simulation::FinishStep() {
  VirtualWorker::Outcome outcome = worker_.Collect();
  now_ = std::max(now_, outcome.end);
  book_.OnStep(outcome.tokens, outcome.result.seconds);
  SLUICE_RETURN_IF_ERROR(scheduler_.Commit(std::move(outcome.result), now_, &events_));
  Deliver();
  book_.OnState(scheduler_.stats(), now_);
  now_ += DurationOf(TurnaroundSeconds());
  return absl::OkStatus();
}

double Simulation::TurnaroundSeconds() {
  const Samples& turnaround = server_.overheads.turnaround;
  if (scatter_ == nullptr || turnaround.empty()) return turnaround.mean();
  return turnaround[scatter_->PlaceIn(turnaround.size())];
}

void Simulation::Deliver() {
  book_.OnEvents(events_);
  for (const SequenceEvent& event : events_) {
    const size_t answer = event.id - 1;
    if (event.finish != FinishReason::kNone) LetFollow(answer, event.time);
    if (event.token < 0) continue;
    const int32_t given = ++tokens_of_[answer];
    if (event.finish == FinishReason::kNone && given == workload_.CutOf(answer).tokens)
      cuts_.push_back(answer);
  }
  events_.clear();
}

absl::StatusOr<RunFigures> Simulation::Run() {
  while (now_ <= Clock::time_point(kLongest)) {
    AddArrivals();
    CutShort();
    scheduler_.Expire(now_, &events_);
    Deliver();
    PlanSteps();
    if (scheduler_.steps_in_flight() > 0) {
      SLUICE_RETURN_IF_ERROR(FinishStep());
    } else if (scheduler_.has_sequences()) {
      return Internal("sequences wait, but for nothing");
    } else if (const auto next = NextArrival()) {
      now_ = std::max(now_, KnownAt(*next));
    } else {
      return book_.Close();
    }
  }
  return InvalidArgument("the load takes more than 200 years");
}

}  // namespace

int32_t ContextTokens(const ExecutorLimits& limits) {
  return static_cast<int32_t>(
      std::min<int64_t>(limits.context_tokens, int64_t{limits.kv_blocks} * limits.block_size));
}

absl::StatusOr<RunFigures> Simulate(const SimulatedServer& server, const SimulationOptions& options,
                                    const Workload& workload) {
  SLUICE_RETURN_IF_ERROR(Check(server));
  return Simulation(server, options, workload).Run();
}

}  // namespace sluice::engine
