// Plays scripts; see scheduler_script.h.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "tests/engine/scheduler/scheduler_script.h"

namespace sluice::testing {
namespace {

using engine::FinishReason;
using engine::GenerateRequest;

// The rest of a run, after its last arrival, takes fewer steps than that.
constexpr int32_t kStepsAfter = 200000;
// Those that run already, and those that are looked at while one waits for a prefix in the making.
constexpr int64_t kOvertakenMax = 32;

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
      unserved_[id] = 0;
    }
  }

  void Step() {
    while (rig_.scheduler().steps_in_flight() < script_.depth && Plan()) continue;
    if (rig_.scheduler().steps_in_flight() > 0) rig_.Commit();
    if (std::string error = rig_.Check(); !error.empty()) Fail(std::move(error));
    std::erase_if(unserved_, [&](const auto& item) {
      const SchedulerRig::Outcome& outcome = rig_[item.first];
      return outcome.ends > 0 || !outcome.tokens.empty();
    });
  }

  bool Plan() {
    const bool some_have_lost_patience =
        std::any_of(unserved_.begin(), unserved_.end(),
                    [&](const auto& item) { return HasLostPatience(*rig_[item.first].request); });
    if (!some_have_lost_patience) return rig_.Plan();
    const engine::EngineState before = rig_.scheduler().State(rig_.Now(), SIZE_MAX);
    if (!rig_.Plan()) return false;
    CheckNobodyIsStarved(before, rig_.scheduler().State(rig_.Now(), SIZE_MAX));
    return true;
  }

  // Who was taken in now has overtaken those before it that have lost patience and wait still,
  // unless its tenant has had less service than theirs.
  void CheckNobodyIsStarved(const engine::EngineState& before, const engine::EngineState& after) {
    const std::set<Key> ran = RunningOf(before), runs = RunningOf(after);
    std::vector<const GenerateRequest*> taken_in;  // of those looked at so far, the latest first
    for (auto it = unserved_.rbegin(); it != unserved_.rend(); ++it) {
      auto& [id, overtaken] = *it;
      const SchedulerRig::Outcome& outcome = rig_[id];
      const GenerateRequest& request = *outcome.request;
      const Key key(request.id, outcome.choice);
      if (runs.contains(key)) {
        if (!ran.contains(key)) taken_in.push_back(&request);
        continue;
      }
      if (outcome.ends > 0 || !HasLostPatience(request)) continue;
      const engine::TenantInfo& own = AccountOf(request, before);
      overtaken += std::count_if(taken_in.begin(), taken_in.end(), [&](const auto* later) {
        const engine::TenantInfo& other = AccountOf(*later, before);
        return &other == &own || other.served > own.served;
      });
      result_.overtaken_most = std::max(result_.overtaken_most, overtaken);
      if (overtaken > kOvertakenMax)
        Fail("sequence " + std::to_string(id) + " has lost patience and was overtaken " +
             std::to_string(overtaken) + " times");
    }
  }

  // The first account is that of all who have none of their own.
  static const engine::TenantInfo& AccountOf(const GenerateRequest& request,
                                             const engine::EngineState& state) {
    const auto own =
        std::find_if(state.tenants.rbegin(), state.tenants.rend(),
                     [&](const auto& tenant) { return tenant.name == request.tenant; });
    return own == state.tenants.rend() ? state.tenants.front() : *own;
  }

  // A tenant's own limits may hold it back for longer.
  bool HasLostPatience(const GenerateRequest& request) const {
    const double waited = engine::Seconds(rig_.Now() - request.arrival);
    return waited > script_.options.line.patience_seconds && request.tenant != "2" &&
           request.tenant != "3";
  }

  using Key = std::pair<std::string, int32_t>;  // request, choice
  static std::set<Key> RunningOf(const engine::EngineState& state) {
    std::set<Key> running;
    for (const engine::SequenceInfo& sequence : state.sequences)
      if (sequence.running) running.emplace(sequence.request_id, sequence.choice);
    return running;
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

  const Script& script_;
  SchedulerRig rig_;
  std::map<int32_t, std::vector<uint64_t>> ids_;  // of a request
  // By id: those without a token yet, and how often they were overtaken after all patience.
  std::map<uint64_t, int64_t> unserved_;
  int32_t step_ = 0;
  PlayResult result_;
};

}  // namespace

PlayResult Play(const Script& script) { return Player(script).Run(); }

}  // namespace sluice::testing
