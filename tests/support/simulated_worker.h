#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/plan/step_executor.h"
#include "engine/request.h"

namespace sluice::testing {

// An executor without a model: keeps, in place of keys and values, the tokens themselves in the
// blocks (with their positions), checks every rule of step_plan.h, and "samples" a hash of all
// tokens that it finds through the slot's block table. So a block handed out twice, a token lost,
// or a position skipped changes the answer or breaks a rule. Time is virtual.
class SimulatedWorker : public engine::StepExecutor {
 public:
  // What a sampled token depends on.
  struct SampleContext {
    uint64_t prefix_hash = 0;  // of all tokens up to here
    int32_t first_token = 0;   // of the prompt: names a script
    int32_t generated = 0;     // tokens generated before this one
    const engine::SamplingParams* sampling = nullptr;
  };
  struct Options {
    engine::ExecutorLimits limits;
    // Sequences whose prompt begins with the key "sample" these tokens (then the hash's).
    std::map<int32_t, std::vector<int32_t>> scripts;
    // True: the row has NaNs.
    std::function<bool(const SampleContext&)> non_finite;
    // Collect of this step fails: the device is lost. 0: never.
    uint64_t fail_at_step = 0;
    // Called by Collect before a step is run, on the caller's thread; may block.
    std::function<void(uint64_t step)> before_step;
    // Virtual seconds of a step, and of each token in it.
    double step_seconds = 1e-3;
    double token_seconds = 1e-5;
    // How many times as long as that a step takes; not set: once.
    std::function<double(uint64_t step)> slowness;
  };
  explicit SimulatedWorker(Options options);

  const engine::ExecutorLimits& limits() const override { return options_.limits; }
  void Submit(engine::StepPlan plan) override;
  absl::StatusOr<engine::StepResult> Collect() override;

  // The first rule broken, or empty. Collect fails from then on.
  const std::string& error() const { return error_; }
  double virtual_seconds() const { return seconds_; }
  int64_t steps() const { return static_cast<int64_t>(collected_); }

  // The whole answer that a request must get for `choice`, whatever else runs: tokens up to and
  // with the one that ends it by `end_ids` (of the model), stop tokens, max_tokens or the context.
  static std::vector<int32_t> ExpectedTokens(const engine::GenerateRequest& request, int32_t choice,
                                             const std::vector<int32_t>& end_ids,
                                             int32_t context_tokens, const Options& options);

 private:
  struct Cell {
    int32_t token = -1;
    int32_t position = -1;
  };
  struct Slot {
    bool taken = false;
    engine::SamplingParams sampling;
    std::vector<int32_t> history;
    int32_t prompt_tokens = 0;
    std::vector<int32_t> blocks;
    bool sliced = false;        // has had a slice; its first one may begin behind a shared prefix
    int32_t computed = 0;       // when plans submitted so far are done
    int32_t last_sampled = -1;  // when plans run so far are done
  };
  // Checks that need the plan alone, in the order of submission.
  std::string CheckPlan(const engine::StepPlan& plan);
  std::string CheckStarts(const engine::StepPlan& plan);
  std::string CheckAppends(const engine::StepPlan& plan);
  std::string CheckCopies(const engine::StepPlan& plan);
  std::string CheckSlices(const engine::StepPlan& plan);
  // `slot` writes to a block: nobody else may hold it, nor use it in a step in flight.
  std::string CheckWrite(int32_t slot, int32_t block);
  void RunCopies(const engine::StepPlan& plan);
  std::string RunSlice(const engine::StepPlan& plan, const engine::PlanSlice& slice,
                       engine::StepResult* result);
  static int32_t Sample(const SampleContext& context, const Options& options);

  Options options_;
  std::string error_;
  std::vector<Slot> seats_;       // as the plans submitted leave them
  std::vector<Slot> slots_;       // as the plans run leave them
  std::vector<Cell> cells_;       // [kv_blocks, block_size]
  std::vector<int32_t> holders_;  // of a block: seats
  // Of a block: the last step submitted that has a slice of a holder, and that holder.
  std::vector<uint64_t> used_;
  std::vector<int32_t> user_;
  std::deque<engine::StepPlan> queue_;
  uint64_t submitted_ = 0;
  uint64_t collected_ = 0;
  double seconds_ = 0;
};

}  // namespace sluice::testing
