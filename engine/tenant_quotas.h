#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>

#include "engine/base/status.h"
#include "engine/request.h"
#include "engine/tenant.h"

namespace sluice::engine {

// What each tenant has in the engine and has used lately, against what it may. Tokens a minute are
// kept as a bucket (token bucket, Turner 1986) that holds a minute's tokens and fills evenly: a
// request is let in while there is something in it, and takes out its prompt's tokens then and its
// answers' when they end, which may leave a debt to wait for. Not thread-safe.
class TenantQuotas {
 public:
  TenantQuotas(std::map<std::string, TenantShare> named, const TenantShare& other);

  // Books the request's answers and its prompt. ResourceExhausted, and nothing is booked, when one
  // of its tenant's quotas has no room; RetryAfterOf says when a minute's will have.
  absl::Status Take(const GenerateRequest& request, Clock::time_point now);
  // One of the request's answers has ended.
  void Return(const GenerateRequest& request, int32_t generated_tokens, Clock::time_point now);

  // Tenants with something in the engine or used lately, of those that have quotas.
  size_t size() const { return accounts_.size(); }

 private:
  struct Account {
    int32_t open = 0;           // answers
    int64_t prompt_tokens = 0;  // theirs
    double level = 0;           // of the bucket; below 0: a debt
    Clock::time_point filled;   // when it was last brought up to date
  };
  const TenantShare& ShareOf(const std::string& tenant) const;
  static void Fill(const TenantShare& share, Clock::time_point now, Account* account);
  static absl::Status Check(const TenantShare& share, const Account& account,
                            const GenerateRequest& request);
  void DropIdle(Clock::time_point now);

  const std::map<std::string, TenantShare> named_;
  const TenantShare other_;
  std::unordered_map<std::string, Account> accounts_;
  size_t drop_at_ = 64;  // accounts at which the idle ones are looked for
};

}  // namespace sluice::engine
