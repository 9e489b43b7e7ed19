#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "engine/scheduler/urgency_line.h"
#include "engine/sequence.h"
#include "engine/state.h"
#include "engine/tenant.h"

namespace sluice::engine {

// Who is served next: sequences that wait for a slot, in one line for each tenant and priority, and
// the books of what each tenant has been given.
//
// The order: by priority, a lower number first; whoever has waited longer than `patience` counts as
// one of the best priority that waits, so that nobody starves. Of equal priority by the tenant that
// has had least service, counted in tokens over its weight (the virtual token counter of Sheng et
// al. 2024, "Fairness in Serving Large Language Models"), patience or not: the waits of a flood
// must not be another tenant's. Of one tenant first who has lost patience, the oldest first; the
// others as UrgencyLine has it.
//
// A tenant that had nobody waiting is counted as having had as much as those that had, less a
// little that it may have saved, so that requests that come together after a pause need not wait
// for each other; nobody saves up more, and nobody pays for what nobody else wanted. No tenant's
// absence leaves anything unused.
//
// Engine thread only.
class WaitingLine {
 public:
  struct Options {
    std::map<std::string, TenantShare> tenants;  // by name; others have `other`
    TenantShare other;
    int32_t tenants_max = 1024;  // that are told apart; those beyond share one account
    double patience_seconds = 30;
    double generated_weight = 2;  // of a generated token, a prompt's token being 1
    double saved_service = 512;   // the most that a tenant may save, in tokens over its weight
  };
  WaitingLine(Options options, int32_t kv_blocks);

  // A new sequence of the tenant that its request names: sets Sequence::tenant.
  void Open(Sequence* sequence);
  const TenantShare& ShareOf(const Sequence& sequence) const {
    return tenants_[static_cast<size_t>(sequence.tenant)].share;
  }
  void Close(Sequence* sequence);  // it has ended

  // Into its line; out of it. Add of one that ran is its return.
  void Add(Sequence* sequence);
  void Remove(Sequence* sequence);
  // Takes out all that do not wait any more.
  void Sweep();

  // One round of choosing: Next is the first in the order of service of those that were not passed
  // by in this round, nullptr when there is none whose tenant may run one more. What it returned
  // may be passed by or removed before the next Next.
  void StartRound(Clock::time_point now);
  Sequence* Next();
  void Pass(const Sequence& sequence);
  // It waits, or its prompt is computed, or it was taken in after that long.
  bool HasLostPatience(const Sequence& sequence) const;
  // Of sequences that wait or run, the least is served first: priority, service of the tenant, and
  // whether it has patience still.
  using Rank = std::tuple<int32_t, double, bool>;
  Rank RankOf(const Sequence& sequence) const;

  // A sequence got a slot or lost it; its table has grown by so many blocks (or shrunk).
  void CountRunning(const Sequence& sequence, int32_t change);
  void CountBlocks(const Sequence& sequence, int32_t change);
  // Of its tenant, slots over weight, if it had so many more.
  double SeatsForWeight(const Sequence& sequence, int32_t more) const;
  // Service: tokens that are about to be computed for a sequence.
  void Charge(const Sequence& sequence, int32_t prompt_tokens, int32_t generated_tokens);

  int64_t known_tokens() const { return known_tokens_; }  // of all that wait
  int32_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // In no order of meaning.
  void ForEach(const std::function<void(const Sequence&)>& visit) const;

  std::vector<TenantInfo> Tenants() const;

 private:
  struct Tenant {
    std::string name;
    TenantShare share;
    double served = 0;
    bool has_come = false;  // before: a name that is new has saved nothing
    int32_t open = 0;       // sequences not ended
    int32_t waiting = 0;
    int32_t running = 0;
    int32_t blocks = 0;
    std::map<int32_t, UrgencyLine> lines;  // by priority; none is empty
  };
  Tenant& TenantOf(const Sequence& sequence) {
    return tenants_[static_cast<size_t>(sequence.tenant)];
  }
  int32_t Account(const std::string& name);
  bool MayRunOneMore(const Tenant& tenant) const;
  double Floor() const;
  void AdvanceFloor(const Tenant& tenant, double tokens);
  void CountWaiting(Tenant* tenant, int32_t change);

  const Options options_;
  const int32_t kv_blocks_;
  std::vector<Tenant> tenants_;
  std::unordered_map<std::string, int32_t> account_of_;
  int32_t size_ = 0;
  int64_t known_tokens_ = 0;
  double floor_ = 0;           // see Floor
  double waiting_weight_ = 0;  // of the tenants that have somebody waiting
  int32_t waited_last_ = 0;    // the account
  int32_t best_priority_ = 0;  // of those that waited when the round began
  Clock::time_point now_;
};

}  // namespace sluice::engine
