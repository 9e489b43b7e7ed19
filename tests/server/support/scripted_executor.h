#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "engine/plan/step_executor.h"

namespace sluice::testing {

// Lets steps through one by one or all together, so that tests can look at the server in the middle
// of an answer without sleeping.
class StepGate {
 public:
  void Hold();
  void Allow(int steps);  // that many more, then hold again
  void Release();         // let all through from now on
  void Pass();            // called by the executor: waits

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;
  int allowed_ = 0;
};

// An executor without a model: a function of (prompt, number of tokens generated, sampling) says
// what comes next.
class ScriptedExecutor : public engine::StepExecutor {
 public:
  static constexpr int32_t kNonFinite = -2;

  struct Row {
    std::vector<int32_t> prompt;
    int32_t generated = 0;
    engine::SamplingParams sampling;
  };
  struct Options {
    engine::ExecutorLimits limits;
    std::function<int32_t(const Row&)> next;
    StepGate* gate = nullptr;                  // optional
    std::function<bool(uint64_t step)> fails;  // optional: this step is the device's last
  };
  explicit ScriptedExecutor(Options options);

  const engine::ExecutorLimits& limits() const override { return options_.limits; }
  void Submit(engine::StepPlan plan) override { queue_.push_back(std::move(plan)); }
  absl::StatusOr<engine::StepResult> Collect() override;

 private:
  struct Slot {
    std::vector<int32_t> tokens;
    int32_t last = 0;
    engine::SamplingParams sampling;
  };
  const Options options_;
  std::vector<Slot> slots_;
  std::deque<engine::StepPlan> queue_;
};

}  // namespace sluice::testing
