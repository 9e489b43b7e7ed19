#include "engine/scheduler/waiting_line.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "engine/base/check.h"

namespace sluice::engine {

WaitingLine::WaitingLine(Options options, int32_t kv_blocks)
    : options_(std::move(options)), kv_blocks_(kv_blocks) {
  // Account 0 is for those that are not told apart.
  tenants_.reserve(static_cast<size_t>(options_.tenants_max) + 1);
  tenants_.push_back({});
  tenants_.back().share = options_.other;
  for (const auto& [name, share] : options_.tenants) Account(name);
}

int32_t WaitingLine::Account(const std::string& name) {
  const auto it = account_of_.find(name);
  if (it != account_of_.end()) return it->second;
  const auto configured = options_.tenants.find(name);
  int32_t account = static_cast<int32_t>(tenants_.size());
  if (account > options_.tenants_max && configured == options_.tenants.end()) {
    // The account of one that has nothing here, and is not named in the configuration.
    account = 0;
    for (size_t i = 1; i < tenants_.size() && account == 0; ++i) {
      if (tenants_[i].open == 0 && !options_.tenants.contains(tenants_[i].name))
        account = static_cast<int32_t>(i);
    }
    if (account == 0) return 0;
    account_of_.erase(tenants_[static_cast<size_t>(account)].name);
  } else {
    tenants_.push_back({});
  }
  Tenant& tenant = tenants_[static_cast<size_t>(account)];
  tenant = Tenant();
  tenant.name = name;
  tenant.share = configured == options_.tenants.end() ? options_.other : configured->second;
  account_of_.emplace(name, account);
  return account;
}

// What a tenant that had nobody waiting is counted as having had, when somebody comes, but for what
// it may have saved: what those that wait would have had by now if they had been served evenly
// since the last one came (the virtual time of fair queueing, Parekh and Gallager 1993), so that
// not even an endless row of newcomers keeps anybody waiting for ever; within what those have had
// that wait and may run. If none do, as the one that waited last, which has gone on being served.
double WaitingLine::Floor() const {
  double least = std::numeric_limits<double>::infinity(), most = -1;
  for (const Tenant& tenant : tenants_) {
    if (tenant.waiting == 0 || !MayRunOneMore(tenant)) continue;
    least = std::min(least, tenant.served);
    most = std::max(most, tenant.served);
  }
  if (most < 0) return std::max(tenants_[static_cast<size_t>(waited_last_)].served, floor_);
  return std::clamp(floor_, least, most);
}

void WaitingLine::AdvanceFloor(const Tenant& tenant, double tokens) {
  if (waiting_weight_ <= 0) return;
  floor_ += tokens / (waiting_weight_ + (tenant.waiting > 0 ? 0 : tenant.share.weight));
}

void WaitingLine::Open(Sequence* sequence) {
  sequence->tenant = Account(sequence->request->tenant);
  ++TenantOf(*sequence).open;
}

void WaitingLine::Close(Sequence* sequence) {
  Tenant& tenant = TenantOf(*sequence);
  ENGINE_CHECK(tenant.open > 0) << tenant.name;
  --tenant.open;
}

void WaitingLine::CountWaiting(Tenant* tenant, int32_t change) {
  if (tenant->waiting == 0 && change > 0) {
    floor_ = Floor();
    const double saved = tenant->has_come ? options_.saved_service : 0;
    tenant->served = std::max(tenant->served, floor_ - saved);
    tenant->has_come = true;
    waiting_weight_ += tenant->share.weight;
  }
  tenant->waiting += change;
  size_ += change;
  if (tenant->waiting > 0) return;
  waited_last_ = static_cast<int32_t>(tenant - tenants_.data());
  waiting_weight_ = size_ == 0 ? 0 : waiting_weight_ - tenant->share.weight;
}

void WaitingLine::Add(Sequence* sequence) {
  Tenant& tenant = TenantOf(*sequence);
  const auto [line, is_new] = tenant.lines.try_emplace(sequence->request->priority);
  if (is_new) line->second.StartRound(now_);
  line->second.Add(sequence);
  CountWaiting(&tenant, 1);
  sequence->tokens_in_line = sequence->known();
  known_tokens_ += sequence->tokens_in_line;
}

void WaitingLine::Remove(Sequence* sequence) {
  Tenant& tenant = TenantOf(*sequence);
  const auto line = tenant.lines.find(sequence->request->priority);
  ENGINE_CHECK(line != tenant.lines.end()) << "sequence " << sequence->id;
  line->second.Remove(sequence);
  if (line->second.empty()) tenant.lines.erase(line);
  CountWaiting(&tenant, -1);
  known_tokens_ -= sequence->tokens_in_line;
}

void WaitingLine::Sweep() {
  for (Tenant& tenant : tenants_) {
    for (auto& [priority, line] : tenant.lines) {
      line.Sweep([&](const Sequence& sequence) {
        known_tokens_ -= sequence.tokens_in_line;
        CountWaiting(&tenant, -1);
      });
    }
    std::erase_if(tenant.lines, [](const auto& line) { return line.second.empty(); });
  }
}

void WaitingLine::StartRound(Clock::time_point now) {
  now_ = now;
  best_priority_ = std::numeric_limits<int32_t>::max();
  if (size_ == 0) return;
  for (Tenant& tenant : tenants_) {
    for (auto& [priority, line] : tenant.lines) {
      line.StartRound(now);
      best_priority_ = std::min(best_priority_, priority);
    }
  }
}

bool WaitingLine::HasLostPatience(const Sequence& sequence) const {
  if (sequence.lost_patience) return true;
  if (sequence.state != SequenceState::kWaiting && sequence.pending() <= 1) return false;
  return Seconds(now_ - sequence.patient_since) > options_.patience_seconds;
}

WaitingLine::Rank WaitingLine::RankOf(const Sequence& sequence) const {
  const bool lost = HasLostPatience(sequence);
  const int32_t priority = sequence.request->priority;
  const double served = tenants_[static_cast<size_t>(sequence.tenant)].served;
  return Rank(lost ? std::min(priority, best_priority_) : priority, served, !lost);
}

bool WaitingLine::MayRunOneMore(const Tenant& tenant) const {
  const TenantShare& share = tenant.share;
  if (share.running_max > 0 && tenant.running >= share.running_max) return false;
  // One may always run: a share smaller than a sequence would be none.
  return share.kv_fraction <= 0 || tenant.running == 0 ||
         tenant.blocks < share.kv_fraction * kv_blocks_;
}

Sequence* WaitingLine::Next() {
  Sequence* best = nullptr;
  std::tuple<Rank, uint64_t> best_key;
  const auto take = [&](Sequence* sequence) {
    const std::tuple key(RankOf(*sequence), sequence->order);
    if (best != nullptr && best_key <= key) return;
    best = sequence;
    best_key = key;
  };
  for (const Tenant& tenant : tenants_) {
    if (tenant.waiting == 0 || !MayRunOneMore(tenant)) continue;
    for (const auto& [priority, line] : tenant.lines) {
      Sequence* const oldest = line.Oldest();
      if (oldest != nullptr && HasLostPatience(*oldest)) {
        take(oldest);
        continue;
      }
      for (const Urgency urgency : kAllUrgencies) {
        Sequence* const head = line.Head(urgency);
        if (head == nullptr) continue;
        take(head);
        break;
      }
    }
  }
  return best;
}

void WaitingLine::Pass(const Sequence& sequence) {
  TenantOf(sequence).lines[sequence.request->priority].Pass(sequence);
}

void WaitingLine::CountRunning(const Sequence& sequence, int32_t change) {
  TenantOf(sequence).running += change;
}

double WaitingLine::SeatsForWeight(const Sequence& sequence, int32_t more) const {
  const Tenant& tenant = tenants_[static_cast<size_t>(sequence.tenant)];
  return (tenant.running + more) / tenant.share.weight;
}

void WaitingLine::CountBlocks(const Sequence& sequence, int32_t change) {
  TenantOf(sequence).blocks += change;
}

void WaitingLine::Charge(const Sequence& sequence, int32_t prompt_tokens,
                         int32_t generated_tokens) {
  Tenant& tenant = TenantOf(sequence);
  const double tokens = prompt_tokens + options_.generated_weight * generated_tokens;
  tenant.served += tokens / tenant.share.weight;
  AdvanceFloor(tenant, tokens);
}

void WaitingLine::ForEach(const std::function<void(const Sequence&)>& visit) const {
  for (const Tenant& tenant : tenants_) {
    for (const auto& [priority, line] : tenant.lines) {
      for (const Sequence* sequence : line.sequences()) visit(*sequence);
    }
  }
}

std::vector<TenantInfo> WaitingLine::Tenants() const {
  std::vector<TenantInfo> states;
  for (const Tenant& tenant : tenants_) {
    states.push_back({tenant.name, tenant.share.weight, tenant.served, tenant.waiting,
                      tenant.running, tenant.blocks});
  }
  return states;
}

}  // namespace sluice::engine
