// What Scheduler shows of itself.
#include <algorithm>

#include "engine/scheduler/scheduler.h"

namespace sluice::engine {
namespace {

SequenceInfo InfoOf(const Sequence& sequence, Clock::time_point now) {
  const GenerateRequest& request = *sequence.request;
  SequenceInfo info;
  info.request_id = request.id;
  info.tenant = request.tenant;
  info.choice = sequence.choice;
  info.priority = request.priority;
  info.running = sequence.state == SequenceState::kRunning;
  info.slot = sequence.slot;
  info.age = Seconds(now - request.arrival);
  if (!info.running) info.waiting = Seconds(now - sequence.waiting_since);
  info.prompt_tokens = sequence.prompt_tokens();
  info.cached_tokens = sequence.cached_tokens;
  info.computed_tokens = sequence.computed;
  info.generated_tokens = sequence.generated();
  info.tokens_left = sequence.left();
  info.blocks = sequence.table.size();
  info.preemptions = sequence.preemptions;
  return info;
}

}  // namespace

EngineState Scheduler::State(Clock::time_point now, size_t sequences_max) const {
  EngineState state;
  state.stats = stats();
  state.steps_in_flight = steps_in_flight();
  state.tenants = line_.Tenants();
  std::vector<const Sequence*> shown(running_.begin(), running_.end());
  const auto first_waiting = static_cast<std::ptrdiff_t>(shown.size());
  line_.ForEach([&](const Sequence& sequence) { shown.push_back(&sequence); });
  std::sort(shown.begin() + first_waiting, shown.end(), Earlier);
  if (shown.size() > sequences_max) {
    state.more_sequences = static_cast<int64_t>(shown.size() - sequences_max);
    shown.resize(sequences_max);
  }
  state.sequences.reserve(shown.size());
  for (const Sequence* sequence : shown) state.sequences.push_back(InfoOf(*sequence, now));
  return state;
}

}  // namespace sluice::engine
