#include "server/config/tenants.h"

#include <charconv>
#include <cmath>
#include <set>
#include <sstream>

namespace sluice::server::config {
namespace {

absl::Status Wrong(const std::string& entry, const std::string& what) {
  return engine::InvalidArgument("engine.tenants: \"" + entry + "\": " + what);
}

absl::Status ParseTerm(const std::string& entry, const std::string& term,
                       engine::TenantShare* share) {
  const size_t equals = term.find('=');
  const std::string name = term.substr(0, equals);
  double value = 0;
  const char* const end = term.data() + term.size();
  const bool is_number =
      equals != std::string::npos &&
      std::from_chars(term.data() + equals + 1, end, value) == std::from_chars_result{end, {}};
  if (!is_number) return Wrong(entry, "\"" + term + "\" is not of the form NAME=NUMBER");
  const auto in_range = [&](double low, double high) {
    return value >= low && value <= high
               ? absl::OkStatus()
               : Wrong(entry, term + " is not in [" + std::to_string(low) + ", " +
                                  std::to_string(high) + "]");
  };
  if (name == "weight") {
    share->weight = value;
    return in_range(0.001, 1000);
  }
  if (name == "kv") {
    share->kv_fraction = value;
    return in_range(0.001, 1);
  }
  if (name == "ttft_ms" || name == "itl_ms") {
    (name == "ttft_ms" ? share->first_token_target : share->inter_token_target) = value / 1e3;
    return in_range(1, 3.6e6);
  }
  const bool whole = value == std::floor(value);
  if ((name == "prompt_tokens" || name == "tokens_per_minute") && whole) {
    SLUICE_RETURN_IF_ERROR(in_range(1, 1e12));
    (name == "prompt_tokens" ? share->prompt_tokens_max : share->tokens_per_minute) =
        static_cast<int64_t>(value);
    return absl::OkStatus();
  }
  if ((name == "running" || name == "open") && whole) {
    SLUICE_RETURN_IF_ERROR(in_range(1, 1 << 20));
    (name == "open" ? share->open_max : share->running_max) = static_cast<int32_t>(value);
    return absl::OkStatus();
  }
  return Wrong(
      entry,
      "\"" + term +
          "\" is none of weight=, kv=, ttft_ms=, itl_ms=, and (whole numbers) running=, open=, "
          "prompt_tokens=, tokens_per_minute=");
}

}  // namespace

absl::Status ParseTenants(const std::vector<std::string>& entries,
                          std::map<std::string, engine::TenantShare>* named,
                          engine::TenantShare* other) {
  std::set<std::string> seen;
  for (const std::string& entry : entries) {
    std::istringstream words(entry);
    std::string name, term;
    if (!(words >> name)) return Wrong(entry, "it names no tenant");
    if (name.find('=') != std::string::npos) return Wrong(entry, "the tenant's name comes first");
    if (!seen.insert(name).second) return Wrong(entry, "the tenant is there already");
    engine::TenantShare share;
    while (words >> term) SLUICE_RETURN_IF_ERROR(ParseTerm(entry, term, &share));
    (name == "*" ? *other : (*named)[name]) = share;
  }
  return absl::OkStatus();
}

}  // namespace sluice::server::config
