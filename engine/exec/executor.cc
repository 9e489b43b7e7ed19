#include "engine/exec/executor.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <utility>

#include "kernels/check.h"

namespace sluice::engine {
namespace {

struct Outcome {
  absl::Status status;
  StepResult result;  // when that is ok
};

// Once a plan has failed, all later ones do.
Outcome RunGuarded(Worker& worker, StepPlan plan, const absl::Status& failure) {
  if (!failure.ok()) return {failure, {}};
  try {
    Outcome outcome{absl::OkStatus(), worker.Run(plan)};
    outcome.result.spent = std::move(plan);
    return outcome;
  } catch (const std::exception& e) {  // the standard library's: out of memory
    return {Internal("step " + std::to_string(plan.step) + " failed: " + e.what()), {}};
  }
}

}  // namespace

// Outlives the executor as long as a lost step keeps the thread.
struct WorkerExecutor::Shared {
  std::unique_ptr<Worker> worker;  // the thread's
  std::mutex mutex;
  std::condition_variable submitted, finished;
  std::deque<StepPlan> plans;   // under mutex
  std::deque<Outcome> results;  // under mutex
  int64_t outstanding = 0;      // submitted and not collected; under mutex
  bool stopping = false;        // under mutex
};

WorkerExecutor::WorkerExecutor(std::unique_ptr<Worker> worker,
                               std::chrono::milliseconds step_timeout)
    : limits_(worker->limits()), step_timeout_(step_timeout), shared_(std::make_shared<Shared>()) {
  shared_->worker = std::move(worker);
  thread_ = std::thread([shared = shared_] { Loop(shared.get()); });
}

WorkerExecutor::~WorkerExecutor() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stopping = true;
  }
  shared_->submitted.notify_one();
  if (lost_) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

void WorkerExecutor::Submit(StepPlan plan) {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->plans.push_back(std::move(plan));
    ++shared_->outstanding;
  }
  shared_->submitted.notify_one();
}

absl::StatusOr<StepResult> WorkerExecutor::Collect() {
  std::unique_lock lock(shared_->mutex);
  SLUICE_CHECK_GT(shared_->outstanding, 0) << "Collect without Submit";
  lost_ = lost_ || !shared_->finished.wait_for(lock, step_timeout_,
                                               [this] { return !shared_->results.empty(); });
  if (lost_) {
    return Internal("a step did not end within " + std::to_string(step_timeout_.count()) +
                    " ms: the device does not answer");
  }
  Outcome outcome = std::move(shared_->results.front());
  shared_->results.pop_front();
  --shared_->outstanding;
  if (!outcome.status.ok()) return outcome.status;
  return std::move(outcome.result);
}

void WorkerExecutor::Loop(Shared* shared) {
  absl::Status failure;
  std::unique_lock lock(shared->mutex);
  while (true) {
    shared->submitted.wait(lock, [&] { return shared->stopping || !shared->plans.empty(); });
    if (shared->stopping) return;
    StepPlan plan = std::move(shared->plans.front());
    shared->plans.pop_front();
    lock.unlock();
    Outcome outcome = RunGuarded(*shared->worker, std::move(plan), failure);
    failure = outcome.status;
    lock.lock();
    shared->results.push_back(std::move(outcome));
    shared->finished.notify_one();
  }
}

}  // namespace sluice::engine
