#include "engine/tenant_quotas.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice::engine {
namespace {

bool HasQuota(const TenantShare& share) {
  return share.open_max > 0 || share.prompt_tokens_max > 0 || share.tokens_per_minute > 0;
}

}  // namespace

TenantQuotas::TenantQuotas(std::map<std::string, TenantShare> named, const TenantShare& other)
    : named_(std::move(named)), other_(other) {}

const TenantShare& TenantQuotas::ShareOf(const std::string& tenant) const {
  const auto it = named_.find(tenant);
  return it == named_.end() ? other_ : it->second;
}

// An account that is new, with no time yet, begins with a full bucket.
void TenantQuotas::Fill(const TenantShare& share, Clock::time_point now, Account* account) {
  const auto full = static_cast<double>(share.tokens_per_minute);
  if (account->filled == Clock::time_point()) {
    account->level = full;
  } else {
    const double minutes = std::max(0.0, Seconds(now - account->filled)) / 60;
    account->level = std::min(full, account->level + full * minutes);
  }
  account->filled = now;
}

absl::Status TenantQuotas::Check(const TenantShare& share, const Account& account,
                                 const GenerateRequest& request) {
  if (share.open_max > 0 && account.open + request.n > share.open_max)
    return ResourceExhausted(
        absl::StrCat("too many requests of tenant '", request.tenant, "': ", account.open,
                     " of its answers run or wait, at most ", share.open_max, " may"));
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  if (share.prompt_tokens_max > 0 &&
      account.prompt_tokens + request.n * prompt > share.prompt_tokens_max)
    return ResourceExhausted(absl::StrCat("too many tokens of tenant '", request.tenant,
                                          "': its prompts in flight have ", account.prompt_tokens,
                                          " and this one ", request.n * prompt, ", at most ",
                                          share.prompt_tokens_max, " may be"));
  if (share.tokens_per_minute > 0 && account.level <= 0) {
    const double seconds = (1 - account.level) * 60 / static_cast<double>(share.tokens_per_minute);
    return WithRetryAfter(
        ResourceExhausted(absl::StrCat("tenant '", request.tenant, "' has used up its ",
                                       share.tokens_per_minute, " tokens a minute")),
        static_cast<int>(std::clamp(std::ceil(seconds), 1.0, 3600.0)));
  }
  return absl::OkStatus();
}

absl::Status TenantQuotas::Take(const GenerateRequest& request, Clock::time_point now) {
  const TenantShare& share = ShareOf(request.tenant);
  if (!HasQuota(share)) return absl::OkStatus();
  if (accounts_.size() >= drop_at_) DropIdle(now);
  const auto it = accounts_.find(request.tenant);
  Account account = it == accounts_.end() ? Account() : it->second;
  Fill(share, now, &account);
  SLUICE_RETURN_IF_ERROR(Check(share, account, request));
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  account.open += request.n;
  account.prompt_tokens += request.n * prompt;
  account.level -= static_cast<double>(prompt);  // computed once for all answers
  accounts_[request.tenant] = account;
  return absl::OkStatus();
}

void TenantQuotas::Return(const GenerateRequest& request, int32_t generated_tokens,
                          Clock::time_point now) {
  const auto it = accounts_.find(request.tenant);
  if (it == accounts_.end()) return;
  const TenantShare& share = ShareOf(request.tenant);
  Account& account = it->second;
  Fill(share, now, &account);
  --account.open;
  account.prompt_tokens -= static_cast<int64_t>(request.prompt.size());
  account.level -= generated_tokens;
  if (account.open == 0 && share.tokens_per_minute == 0) accounts_.erase(it);
}

void TenantQuotas::DropIdle(Clock::time_point now) {
  for (auto it = accounts_.begin(); it != accounts_.end();) {
    const TenantShare& share = ShareOf(it->first);
    Account& account = it->second;
    Fill(share, now, &account);
    const bool idle =
        account.open == 0 && account.level >= static_cast<double>(share.tokens_per_minute);
    it = idle ? accounts_.erase(it) : std::next(it);
  }
  drop_at_ = std::max<size_t>(64, 2 * accounts_.size());
}

}  // namespace sluice::engine
