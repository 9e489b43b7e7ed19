#include "tests/engine/scheduler/scheduler_rig.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace sluice::testing {

using engine::FinishReason;

SimulatedWorker::Options SmallWorker(int32_t kv_blocks, int32_t context_tokens,
                                     int32_t vocabulary) {
  SimulatedWorker::Options options;
  options.limits = {8, 64, kv_blocks, 4, context_tokens, vocabulary};
  return options;
}

engine::Scheduler::Options SmallOptions(int32_t running_max, int32_t step_tokens) {
  engine::Scheduler::Options options;
  options.running_max = running_max;
  options.step_tokens = step_tokens;
  options.end_ids = {kEndId};
  return options;
}

SchedulerRig::SchedulerRig(SimulatedWorker::Options worker, engine::Scheduler::Options options)
    : worker_options_(worker),
      step_tokens_(options.step_tokens),
      running_max_(options.running_max),
      worker_(std::move(worker)),
      scheduler_(worker_.limits(), std::move(options)) {}

engine::Clock::time_point SchedulerRig::Now() const {
  return engine::Clock::time_point(engine::DurationOf(1.0 + worker_.virtual_seconds()));
}

uint64_t SchedulerRig::Add(std::shared_ptr<const engine::GenerateRequest> request, int32_t choice) {
  const uint64_t id = ++last_id_;
  outcomes_[id].request = request;
  outcomes_[id].choice = choice;
  if (recorder_ != nullptr) recorder_->OnAdd(id, *request, choice);
  scheduler_.Add(id, std::move(request), choice);
  return id;
}

std::shared_ptr<engine::GenerateRequest> SchedulerRig::MakeRequest(int32_t prompt_tokens,
                                                                   int32_t max_tokens) {
  constexpr int32_t kFirst = 10;
  const int32_t tokens = worker_options_.limits.vocabulary - kFirst;
  auto request = std::make_shared<engine::GenerateRequest>();
  for (int32_t i = 0; i < prompt_tokens; ++i)
    request->prompt.push_back(kFirst + last_token_++ % tokens);
  request->sampling.temperature = 0;
  request->stop.max_tokens = max_tokens;
  request->stop.ignore_eos = true;
  request->arrival = Now();
  return request;
}

uint64_t SchedulerRig::Add(std::vector<int32_t> prompt, int32_t max_tokens) {
  auto request = std::make_shared<engine::GenerateRequest>();
  request->prompt = std::move(prompt);
  request->sampling.temperature = 0;
  request->stop.max_tokens = max_tokens;
  return Add(std::move(request));
}

void SchedulerRig::Cancel(uint64_t id) {
  if (recorder_ != nullptr) recorder_->OnFinish(id, FinishReason::kCancelled, Now());
  scheduler_.Finish(id, FinishReason::kCancelled, Now(), &events_);
  Book();
}

bool SchedulerRig::Plan() {
  if (recorder_ != nullptr) recorder_->OnExpire(Now());
  scheduler_.Expire(Now(), &events_);
  Book();
  engine::StepPlan plan = scheduler_.Plan(Now());
  if (recorder_ != nullptr) recorder_->OnPlan(plan, Now());
  if (plan.empty()) return false;
  last_plan_ = plan;
  if (static_cast<int32_t>(plan.tokens.size()) > step_tokens_) error_ = "the step's budget";
  if (static_cast<int32_t>(plan.slices.size()) > running_max_) error_ = "the running sequences";
  worker_.Submit(std::move(plan));
  return true;
}

void SchedulerRig::Commit() {
  const auto result = worker_.Collect();
  if (!result.ok()) {
    if (error_.empty()) error_ = engine::Message(result.status());
    return;
  }
  if (recorder_ != nullptr) recorder_->OnCommit(*result, Now());
  const absl::Status status = scheduler_.Commit(*result, Now(), &events_);
  if (!status.ok() && error_.empty()) error_ = engine::Message(status);
  Book();
}

void SchedulerRig::RunAll(int32_t depth) {
  for (int32_t step = 0; step < 100000; ++step) {
    while (scheduler_.steps_in_flight() < depth && Plan()) continue;
    if (scheduler_.steps_in_flight() == 0) {
      EXPECT_FALSE(scheduler_.has_sequences()) << "sequences wait for nothing";
      return;
    }
    Commit();
    ASSERT_EQ(Check(), "") << "after step " << step;
  }
  FAIL() << "not done after 100000 steps";
}

void SchedulerRig::Book() {
  for (const engine::SequenceEvent& event : events_) {
    Outcome& outcome = outcomes_[event.id];
    if (outcome.ends > 0) ++outcome.events_after_end;
    if (event.token >= 0) outcome.tokens.push_back(event.token);
    outcome.admitted = event.scheduled != engine::Clock::time_point{};
    outcome.cached_tokens = event.cached_tokens;
    if (event.finish == FinishReason::kNone) continue;
    ++outcome.ends;
    outcome.finish = event.finish;
    outcome.stop_token = event.stop_token;
    outcome.hidden = event.hidden;
    if (event.error != nullptr) outcome.error = *event.error;
  }
  events_.clear();
}

std::string SchedulerRig::Check() const {
  if (!error_.empty()) return error_;
  if (!worker_.error().empty()) return worker_.error();
  const absl::Status status = scheduler_.CheckIntegrity();
  return status.ok() ? "" : engine::Message(status);
}

std::vector<int32_t> SchedulerRig::Expected(uint64_t id) const {
  const Outcome& outcome = outcomes_.at(id);
  return SimulatedWorker::ExpectedTokens(*outcome.request, outcome.choice, {kEndId},
                                         scheduler_.context_tokens(), worker_options_);
}

}  // namespace sluice::testing
