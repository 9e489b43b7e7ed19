// Plays scripts; see scheduler_script.h.
#include <algorithm>
#include <map>

#include "tests/engine/scheduler/scheduler_script.h"

namespace sluice::testing {
namespace {

using engine::FinishReason;
using engine::GenerateRequest;

// The rest of a run, after its last arrival, takes fewer steps than that.
constexpr int32_t kStepsAfter = 200000;
// Those that run already, and those that are looked at while one waits for a prefix in the making.
constexpr int32_t kOvertakenMax = 32;

class Player {
 public:
  explicit Player(const Script& script) : script_(script), rig_(script.worker, script.options) {}

  PlayResult Run() {
    size_t next = 0;
    for (step_ = 0; step_ < script_.steps && result_.error.empty(); ++step_) {
      for (; next < script_.events.size() && script_.events[next].step == step_; ++next)
        Happen(script_.events[next]);
      Step();
    }
    for (int32_t more = 0; result_.error.empty() && rig_.scheduler().has_sequences(); ++more) {
      if (more >= kStepsAfter) Fail("sequences are starved");
      Step();
      ++step_;
    }
    while (result_.error.empty() && rig_.scheduler().steps_in_flight() > 0) Step();
    if (result_.error.empty() && rig_.scheduler().stats().kv_blocks_used != 0)
      Fail(std::to_string(rig_.scheduler().stats().kv_blocks_used) + " blocks are left in use");
    if (result_.error.empty()) CheckOutcomes();
    result_.stats = rig_.scheduler().stats();
    return result_;
  }

 private:
  void Fail(std::string error) {
    if (!result_.error.empty()) return;
    result_.error = "at step " + std::to_string(step_) + ": " + std::move(error);
    result_.step = step_;
  }

  void Happen(const ScriptEvent& event) {
    if (event.request == nullptr) {
      for (const uint64_t id : ids_[event.number]) rig_.Cancel(id);  // perhaps it has ended
      return;
    }
    auto request = std::make_shared<GenerateRequest>(*event.request);
    request->id = std::to_string(event.number);
    request->arrival = rig_.Now();
    if (event.deadline_ms >= 0)
      request->deadline = rig_.Now() + std::chrono::milliseconds(event.deadline_ms);
    for (int32_t choice = 0; choice < request->n; ++choice) {
      const uint64_t id = rig_.Add(request, choice);
      ids_[event.number].push_back(id);
      unserved_.push_back({id, 0});
    }
  }

  void Step() {
    while (rig_.scheduler().steps_in_flight() < script_.depth && rig_.Plan()) continue;
    if (rig_.scheduler().steps_in_flight() > 0) rig_.Commit();
    if (std::string error = rig_.Check(); !error.empty()) Fail(std::move(error));
    CheckNobodyIsStarved();
  }

  // Who got its first token now has overtaken those before it that have lost patience and have not
  // even been begun.
  void CheckNobodyIsStarved() {
    int32_t served_later = 0;
    for (auto it = unserved_.rbegin(); it != unserved_.rend(); ++it) {
      const SchedulerRig::Outcome& outcome = rig_[it->id];
      if (outcome.ends > 0 || !outcome.tokens.empty()) {
        it->done = true;
        if (!outcome.tokens.empty()) ++served_later;
        continue;
      }
      if (served_later == 0 || !HasLostPatience(*outcome.request) || IsRunning(outcome)) continue;
      it->overtaken += served_later;
      result_.overtaken_most = std::max(result_.overtaken_most, it->overtaken);
      if (it->overtaken > kOvertakenMax)
        Fail("sequence " + std::to_string(it->id) + " has lost patience and was overtaken " +
             std::to_string(it->overtaken) + " times");
    }
    std::erase_if(unserved_, [](const Unserved& unserved) { return unserved.done; });
  }

  // A tenant's own limits may hold it back for longer.
  bool HasLostPatience(const GenerateRequest& request) const {
    const double waited = engine::Seconds(rig_.Now() - request.arrival);
    return waited > script_.options.line.patience_seconds && request.tenant != "2" &&
           request.tenant != "3";
  }

  bool IsRunning(const SchedulerRig::Outcome& outcome) const {
    const engine::EngineState state = rig_.scheduler().State(rig_.Now(), SIZE_MAX);
    return std::any_of(state.sequences.begin(), state.sequences.end(), [&](const auto& sequence) {
      return sequence.running && sequence.request_id == outcome.request->id &&
             sequence.choice == outcome.choice;
    });
  }

  void CheckOutcomes() {
    int64_t looked_for = 0, found = 0;
    for (const auto& [id, outcome] : rig_.outcomes()) {
      const std::string name = "sequence " + std::to_string(id) + ": ";
      found += outcome.cached_tokens;
      if (outcome.admitted) looked_for += static_cast<int64_t>(outcome.request->prompt.size());
      if (outcome.ends != 1) Fail(name + std::to_string(outcome.ends) + " ends");
      if (outcome.events_after_end != 0) Fail(name + "something came after its end");
      std::vector<int32_t> expected = rig_.Expected(id);
      const bool too_late = outcome.finish == FinishReason::kExpired;
      if (too_late) ++result_.deadlines;
      if (outcome.finish == FinishReason::kError) ++result_.faults;
      if (outcome.finish == FinishReason::kCancelled || too_late)
        expected.resize(std::min(expected.size(), outcome.tokens.size()));
      if (outcome.tokens != expected) Fail(name + "other tokens than it has alone");
    }
    // Once a sequence, however often it was looked at, set back and taken in again.
    const engine::EngineStats stats = rig_.scheduler().stats();
    if (stats.prefix_hit_tokens != found) Fail("the tokens found in memory");
    if (stats.prefix_query_tokens != looked_for) Fail("the tokens looked for in memory");
  }

  struct Unserved {
    uint64_t id;
    int32_t overtaken;
    bool done = false;
  };

  const Script& script_;
  SchedulerRig rig_;
  std::map<int32_t, std::vector<uint64_t>> ids_;  // of a request
  std::vector<Unserved> unserved_;                // by id
  int32_t step_ = 0;
  PlayResult result_;
};

}  // namespace

PlayResult Play(const Script& script) { return Player(script).Run(); }

}  // namespace sluice::testing
