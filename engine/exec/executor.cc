#include "engine/exec/executor.h"

#include <exception>
#include <string>
#include <utility>

#include "kernels/check.h"

namespace sluice::engine {

WorkerExecutor::WorkerExecutor(std::unique_ptr<Worker> worker)
    : worker_(std::move(worker)), limits_(worker_->limits()), thread_([this] { Loop(); }) {}

WorkerExecutor::~WorkerExecutor() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  submitted_.notify_one();
  thread_.join();
}

void WorkerExecutor::Submit(StepPlan plan) {
  {
    const std::lock_guard lock(mutex_);
    plans_.push_back(std::move(plan));
    ++outstanding_;
  }
  submitted_.notify_one();
}

absl::StatusOr<StepResult> WorkerExecutor::Collect() {
  std::unique_lock lock(mutex_);
  SLUICE_CHECK_GT(outstanding_, 0) << "Collect without Submit";
  finished_.wait(lock, [this] { return !results_.empty(); });
  absl::StatusOr<StepResult> result = std::move(results_.front());
  results_.pop_front();
  --outstanding_;
  return result;
}

absl::StatusOr<StepResult> WorkerExecutor::RunGuarded(const StepPlan& plan) {
  try {
    return worker_->Run(plan);
  } catch (const std::exception& e) {  // the standard library's: out of memory
    return Internal("step " + std::to_string(plan.step) + " failed: " + e.what());
  }
}

void WorkerExecutor::Loop() {
  absl::Status failure;
  std::unique_lock lock(mutex_);
  while (true) {
    submitted_.wait(lock, [this] { return stopping_ || !plans_.empty(); });
    if (stopping_) return;
    const StepPlan plan = std::move(plans_.front());
    plans_.pop_front();
    lock.unlock();
    absl::StatusOr<StepResult> result =
        failure.ok() ? RunGuarded(plan) : absl::StatusOr<StepResult>(failure);
    if (!result.ok()) failure = result.status();
    lock.lock();
    results_.push_back(std::move(result));
    finished_.notify_one();
  }
}

}  // namespace sluice::engine
