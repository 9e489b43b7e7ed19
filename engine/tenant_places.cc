#include "engine/tenant_places.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"

namespace sluice::engine {

TenantPlaces::TenantPlaces(std::map<std::string, TenantShare> named, const TenantShare& other,
                           int32_t places)
    : named_(std::move(named)),
      other_weight_(other.weight),
      places_(places),
      largest_weight_(other.weight) {
  for (const auto& [name, share] : named_)
    largest_weight_ = std::max(largest_weight_, share.weight);
}

double TenantPlaces::WeightOf(const std::string& tenant) const {
  const auto it = named_.find(tenant);
  return it == named_.end() ? other_weight_ : it->second.weight;
}

bool TenantPlaces::AmongSeveral(const std::string& tenant, Clock::time_point now) {
  if (last_ != tenant) {
    if (last_.has_value()) came_ = now;
    last_ = tenant;
  }
  return came_.has_value() && now - *came_ < kAlone;
}

absl::Status TenantPlaces::Take(const std::string& tenant, int32_t answers, Clock::time_point now) {
  const bool among_several = AmongSeveral(tenant, now);
  if (taken_ + answers > places_)
    return ResourceExhausted(absl::StrCat("too many requests: ", taken_,
                                          " answers run or wait, at most ", places_, " may"));
  const auto it = taken_by_.find(tenant);
  const int32_t own = it == taken_by_.end() ? 0 : it->second;
  const int32_t free = places_ - taken_;
  const double reach = kReach * WeightOf(tenant) / largest_weight_ * free;
  const int32_t kept = std::max(1, places_ / kKept);
  if (among_several && own > 0 &&
      (own + answers > reach || (own + answers > kept && answers + kept > free)))
    return ResourceExhausted(absl::StrCat("too many requests of tenant '", tenant, "': ", own,
                                          " of its answers run or wait, and the ", free,
                                          " places left of ", places_, " are kept for others"));
  taken_by_[tenant] += answers;
  taken_ += answers;
  return absl::OkStatus();
}

void TenantPlaces::Return(const std::string& tenant, int32_t answers) {
  const auto it = taken_by_.find(tenant);
  ENGINE_CHECK(it != taken_by_.end() && it->second >= answers) << "places of '" << tenant << "'";
  taken_ -= answers;
  if ((it->second -= answers) == 0) taken_by_.erase(it);
}

double TenantPlaces::ShareOfWait(const std::string& tenant, int32_t running_max) const {
  double weights = 0;
  int32_t own = 0;
  for (const auto& [name, taken] : taken_by_) {
    if (name == tenant)
      own = taken;
    else
      weights += WeightOf(name);
  }
  if (weights == 0) return 1;
  const double share = WeightOf(tenant) / (weights + WeightOf(tenant));
  const double waiting = std::max(0, taken_ - running_max);
  const double own_waiting = std::max(0.0, own - std::floor(running_max * share));
  return std::min(1.0, (own_waiting + 1) / (waiting + 1) / share);
}

}  // namespace sluice::engine
