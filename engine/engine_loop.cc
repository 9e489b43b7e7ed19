#include "engine/engine_loop.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/log.h"

namespace sluice::engine {

EngineLoop::EngineLoop(Parts parts, Options options)
    : parts_(std::move(parts)),
      options_(std::move(options)),
      scheduler_(parts_.executor->limits(), options_.scheduler),
      recorder_(options_.record_bytes, parts_.executor->limits(), options_.scheduler),
      context_tokens_(scheduler_.context_tokens()) {
  published_.Publish(scheduler_.stats());
  thread_ = std::thread([this] { Run(); });
}

void EngineLoop::Stop() {
  inbox_.Close();
  if (thread_.joinable()) thread_.join();
}

bool EngineLoop::Add(uint64_t id, std::shared_ptr<const GenerateRequest> request, int32_t choice) {
  Message message;
  message.kind = Message::Kind::kAdd;
  message.id = id;
  message.request = std::move(request);
  message.choice = choice;
  return inbox_.Push(std::move(message));
}

// Ends come at most twice for a sequence (its caller, a stop string), so sequences bound them.
void EngineLoop::Finish(uint64_t id, FinishReason reason) {
  Message message;
  message.kind = Message::Kind::kFinish;
  message.id = id;
  message.reason = reason;
  inbox_.Push(std::move(message));
}

void EngineLoop::FinishAll(FinishReason reason) {
  Message message;
  message.kind = Message::Kind::kFinishAll;
  message.reason = reason;
  inbox_.Push(std::move(message));
}

void EngineLoop::Run() {
  pthread_setname_np(pthread_self(), "engine");
  for (;;) {
    const bool idle = !scheduler_.has_sequences() && scheduler_.steps_in_flight() == 0;
    if (!TakeMessages(idle)) break;
    if (const absl::Status status = Step(); !status.ok()) return Fail(status);
    Publish();
    parts_.output->Post(&events_);
  }
  scheduler_.FinishAll(FinishReason::kCancelled, nullptr, Clock::now(), &events_);
  Publish();
  parts_.output->Post(&events_);
}

bool EngineLoop::TakeMessages(bool wait) {
  const bool open = inbox_.Drain(&messages_, wait);
  for (Message& message : messages_) {
    const Clock::time_point now = Clock::now();
    switch (message.kind) {
      case Message::Kind::kAdd:
        recorder_.OnAdd(message.id, *message.request, message.choice);
        scheduler_.Add(message.id, std::move(message.request), message.choice);
        break;
      case Message::Kind::kFinish:
        recorder_.OnFinish(message.id, message.reason, now);
        scheduler_.Finish(message.id, message.reason, now, &events_);
        break;
      case Message::Kind::kFinishAll:
        recorder_.OnFinishAll(message.reason, now);
        scheduler_.FinishAll(message.reason, nullptr, now, &events_);
        break;
      case Message::Kind::kWriteRecord:
        message.done->set_value(recorder_.WriteTo(message.path));
        break;
      case Message::Kind::kLook:
        message.see(scheduler_.State(now, message.sequences_max));
        message.see = nullptr;  // messages are kept until the next come
        break;
    }
  }
  return open;
}

absl::Status EngineLoop::Step() {
  const Clock::time_point begin = Clock::now();
  recorder_.OnExpire(begin);
  scheduler_.Expire(begin, &events_);
  while (scheduler_.steps_in_flight() < options_.depth) {
    StepPlan plan = Plan();
    if (plan.empty()) break;
    Submit(std::move(plan));
  }
  if (scheduler_.steps_in_flight() == 0) {
    ENGINE_CHECK(!scheduler_.has_sequences()) << "sequences wait, but for nothing";
    return absl::OkStatus();
  }
  Publish();  // what is waiting or has ended must not wait for the step to be seen
  parts_.output->Post(&events_);
  absl::StatusOr<StepResult> result = parts_.executor->Collect();
  if (!result.ok()) return result.status();
  const Clock::time_point now = Clock::now();
  ObserveStep(now);
  recorder_.OnCommit(*result, now);
  RecordSlowStep(result->seconds, now);
  return scheduler_.Commit(*std::move(result), now, &events_);
}

StepPlan EngineLoop::Plan() {
  const Clock::time_point now = Clock::now();
  StepPlan plan = scheduler_.Plan(now);
  recorder_.OnPlan(plan, now);
  return plan;
}

absl::Status EngineLoop::WriteRecord(const std::string& path) {
  Message message;
  message.kind = Message::Kind::kWriteRecord;
  message.path = path;
  message.done = std::make_shared<std::promise<absl::Status>>();
  const auto done = message.done;
  if (!inbox_.Push(std::move(message))) return Unavailable("the engine has stopped");
  return done->get_future().get();
}

bool EngineLoop::Look(size_t sequences_max, See see) {
  Message message;
  message.kind = Message::Kind::kLook;
  message.sequences_max = sequences_max;
  message.see = std::move(see);
  return inbox_.Push(std::move(message));
}

void EngineLoop::RecordSlowStep(double seconds, Clock::time_point now) {
  if (options_.slow_step_seconds <= 0 || seconds <= options_.slow_step_seconds) return;
  if (last_slow_record_ != Clock::time_point() && now - last_slow_record_ < std::chrono::minutes(1))
    return;
  last_slow_record_ = now;
  KeepRecord("a step took " + std::to_string(seconds) + " s");
}

void EngineLoop::KeepRecord(const std::string& why) {
  if (!recorder_.on() || options_.record_path.empty()) return;
  const absl::Status status = recorder_.WriteTo(options_.record_path);
  SLUICE_LOG(kWarning) << why << "; flight record: "
                       << (status.ok() ? options_.record_path : sluice::engine::Message(status));
}

void EngineLoop::Submit(StepPlan plan) {
  submitted_.push_back({Clock::now(), static_cast<int32_t>(plan.slices.size()),
                        static_cast<int32_t>(plan.tokens.size())});
  parts_.executor->Submit(std::move(plan));
}

void EngineLoop::ObserveStep(Clock::time_point now) {
  const SubmittedStep step = submitted_.front();
  submitted_.pop_front();
  // With several in flight, a step waits for the one before it.
  const Clock::time_point begin = std::max(step.begin, std::exchange(last_result_, now));
  if (parts_.observer == nullptr) return;
  parts_.observer->OnStep({step.sequences, step.tokens, Seconds(now - begin)});
}

void EngineLoop::Publish() { published_.Publish(scheduler_.stats()); }

void EngineLoop::Fail(const absl::Status& status) {
  SLUICE_LOG(kError) << "the executor failed: " << sluice::engine::Message(status);
  KeepRecord("the executor failed");
  parts_.refuse_all();
  inbox_.Close();
  TakeMessages(false);
  const auto error =
      std::make_shared<const std::string>("the engine failed: " + sluice::engine::Message(status));
  scheduler_.FinishAll(FinishReason::kError, error, Clock::now(), &events_);
  Publish();
  parts_.output->Post(&events_);
  parts_.output->WaitUntilHandled();
  if (parts_.on_fatal) parts_.on_fatal(status);
}

}  // namespace sluice::engine
