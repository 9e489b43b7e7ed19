#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "engine/base/status.h"
#include "engine/request.h"
#include "engine/tenant.h"

namespace sluice::engine {

// The places in which answers run or wait, and who may take one. A tenant that has been alone for
// long may have all. Among several, one may have kReach times as many as are free, or less by its
// weight against the largest (the dynamic thresholds of Choudhury and Hahne 1998), and the last few
// are for those that have few: however many flood the queue, whoever comes with little finds a
// place. Not thread-safe.
class TenantPlaces {
 public:
  TenantPlaces(std::map<std::string, TenantShare> named, const TenantShare& other, int32_t places);

  // ResourceExhausted, saying how full it is, and nothing is taken, when there is no room for all.
  absl::Status Take(const std::string& tenant, int32_t answers, Clock::time_point now);
  void Return(const std::string& tenant, int32_t answers);

  // Of the time in which all are begun that do not fit the `running_max` that run at once: the
  // share that one more of this tenant would wait, for what it has itself before it, served by
  // weight. In (0, 1]; 1 when no other tenant has any.
  double ShareOfWait(const std::string& tenant, int32_t running_max) const;

  int32_t taken() const { return taken_; }

 private:
  static constexpr double kReach = 16;
  static constexpr int32_t kKept = 64;  // one of so many, and one at least
  static constexpr std::chrono::minutes kAlone{10};

  double WeightOf(const std::string& tenant) const;
  // Notes that the tenant comes; whether there was another lately.
  bool AmongSeveral(const std::string& tenant, Clock::time_point now);

  const std::map<std::string, TenantShare> named_;
  const double other_weight_;
  const int32_t places_;
  double largest_weight_;                              // of all that are configured
  std::unordered_map<std::string, int32_t> taken_by_;  // none is 0
  int32_t taken_ = 0;
  std::optional<std::string> last_;        // who came last,
  std::optional<Clock::time_point> came_;  // and when there was a change of that
};

}  // namespace sluice::engine
