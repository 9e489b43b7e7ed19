// What always holds in Scheduler, for tests.
#include <string>
#include <vector>

#include "engine/scheduler/scheduler.h"

namespace sluice::engine {
namespace {

absl::Status Broken(const Sequence& sequence, const std::string& what) {
  return Internal("sequence " + std::to_string(sequence.id) + " " + what);
}

}  // namespace

absl::Status Scheduler::CheckIntegrity() const {
  std::vector<const BlockTable*> tables;
  for (const auto& [id, sequence] : sequences_) tables.push_back(&sequence->table);
  SLUICE_RETURN_IF_ERROR(kv_.CheckIntegrity(tables));
  SLUICE_RETURN_IF_ERROR(CheckQueues());
  SLUICE_RETURN_IF_ERROR(CheckAccounts());
  return CheckSeats();
}

absl::Status Scheduler::CheckQueues() const {
  uint64_t last = 0;
  for (const Sequence* sequence : running_) {
    if (sequence->state != SequenceState::kRunning) return Broken(*sequence, "does not run");
    if (sequence->order <= last) return Broken(*sequence, "runs out of order");
    last = sequence->order;
  }
  absl::Status waiting = absl::OkStatus();
  line_.ForEach([&](const Sequence& sequence) {
    if (sequence.state != SequenceState::kWaiting) waiting = Broken(sequence, "does not wait");
  });
  SLUICE_RETURN_IF_ERROR(waiting);
  size_t retiring = 0;
  for (const auto& [id, sequence] : sequences_) {
    if (sequence->state == SequenceState::kFinished) return Broken(*sequence, "was not deleted");
    if (sequence->state != SequenceState::kRetiring) continue;
    ++retiring;
    if (sequence->steps_in_flight == 0) return Broken(*sequence, "retires for nothing");
  }
  if (retiring + running_.size() + static_cast<size_t>(line_.size()) != sequences_.size())
    return Internal("of " + std::to_string(sequences_.size()) + " sequences " +
                    std::to_string(running_.size()) + " run, " + std::to_string(line_.size()) +
                    " wait and " + std::to_string(retiring) + " retire");
  if (static_cast<int32_t>(running_.size()) > running_max_) return Internal("too many run");
  return absl::OkStatus();
}

absl::Status Scheduler::CheckAccounts() const {
  const std::vector<TenantInfo> accounts = line_.Tenants();
  std::vector<TenantInfo> counted(accounts.size());
  for (const auto& [id, sequence] : sequences_) {
    TenantInfo& account = counted[static_cast<size_t>(sequence->tenant)];
    account.blocks += sequence->table.size();
    if (sequence->state == SequenceState::kRunning) ++account.running;
    if (sequence->state == SequenceState::kWaiting) ++account.waiting;
  }
  for (size_t i = 0; i < accounts.size(); ++i) {
    if (accounts[i].blocks != counted[i].blocks || accounts[i].running != counted[i].running ||
        accounts[i].waiting != counted[i].waiting)
      return Internal(
          "tenant '" + accounts[i].name + "' is accounted for wrongly: running " +
          std::to_string(accounts[i].running) + " for " + std::to_string(counted[i].running) +
          ", waiting " + std::to_string(accounts[i].waiting) + " for " +
          std::to_string(counted[i].waiting) + ", blocks " + std::to_string(accounts[i].blocks) +
          " for " + std::to_string(counted[i].blocks));
  }
  return absl::OkStatus();
}

absl::Status Scheduler::CheckSeats() const {
  std::unordered_map<uint64_t, int32_t> in_flight;
  std::unordered_map<uint64_t, int32_t> samples;
  for (const InFlightStep& step : in_flight_) {
    for (const PlannedSlice& slice : step.slices) {
      ++in_flight[slice.sequence->id];
      if (slice.sampled) ++samples[slice.sequence->id];
    }
  }
  std::vector<bool> held(static_cast<size_t>(limits_.slots), false);
  for (const int32_t slot : free_slots_) {
    if (held[static_cast<size_t>(slot)])
      return Internal("slot " + std::to_string(slot) + " is free twice");
    held[static_cast<size_t>(slot)] = true;
  }
  size_t seated = 0;
  int32_t draining = 0;
  for (const auto& [id, sequence] : sequences_) {
    if (sequence->steps_in_flight != in_flight[id] || sequence->samples_in_flight != samples[id])
      return Broken(*sequence, "miscounts its steps in flight");
    const bool seat_needed =
        sequence->state == SequenceState::kRunning || sequence->steps_in_flight > 0;
    if (seat_needed != (sequence->slot >= 0)) return Broken(*sequence, "has a wrong seat");
    if (sequence->slot < 0) {
      if (sequence->table.size() != 0) return Broken(*sequence, "has blocks without a slot");
      continue;
    }
    ++seated;
    if (held[static_cast<size_t>(sequence->slot)]) return Broken(*sequence, "shares its slot");
    held[static_cast<size_t>(sequence->slot)] = true;
    if (sequence->planned > sequence->table.size() * kv_.block_size())
      return Broken(*sequence, "is planned beyond its blocks");
    if (sequence->state != SequenceState::kRunning) draining += sequence->table.size();
  }
  if (seated + free_slots_.size() != static_cast<size_t>(limits_.slots))
    return Internal("slots are lost");
  if (draining != draining_blocks_) return Internal("draining blocks are miscounted");
  return absl::OkStatus();
}

}  // namespace sluice::engine
