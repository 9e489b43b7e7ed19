#include "server/config/settings/environment.h"

#include <algorithm>

#include "server/config/settings/text.h"

namespace sluice::server::config {
namespace {

constexpr std::string_view kPrefix = "SLUICE_";
constexpr std::string_view kTestPrefix = "SLUICE_TEST_";

bool IsAddress(std::string_view value) {
  return value.starts_with("tcp://") || value.starts_with("udp://") || value.starts_with("sctp://");
}

// NAME_PORT_8000_TCP, with or without _PROTO, _PORT or _ADDR.
bool IsPortVariable(std::string_view name) {
  for (const std::string_view end : {"_PROTO", "_PORT", "_ADDR"}) {
    if (name.ends_with(end)) {
      name.remove_suffix(end.size());
      break;
    }
  }
  bool protocol = false;
  for (const std::string_view end : {"_TCP", "_UDP", "_SCTP"}) {
    if (!name.ends_with(end)) continue;
    name.remove_suffix(end.size());
    protocol = true;
    break;
  }
  const size_t digits = name.find_last_not_of("0123456789");
  return protocol && digits != std::string_view::npos && digits + 1 < name.size() &&
         name.substr(0, digits + 1).ends_with("_PORT_");
}

// What Kubernetes (and Docker's links) tell a container of its neighbours.
bool IsServiceLink(std::string_view name, std::string_view value) {
  if (name.ends_with("_PORT") && IsAddress(value)) return true;
  return name.ends_with("_SERVICE_HOST") || name.ends_with("_SERVICE_PORT") ||
         name.find("_SERVICE_PORT_") != std::string_view::npos || IsPortVariable(name);
}

}  // namespace

Reading ReadEnvironment(const Schema& schema, const std::vector<std::string>& environment) {
  std::vector<std::string> known;
  for (const Setting& setting : schema.settings()) known.push_back(setting.variable);
  known.emplace_back(kConfigVariable);
  Reading out;
  for (const std::string& entry : environment) {
    const size_t equals = entry.find('=');
    if (!entry.starts_with(kPrefix) || equals == std::string::npos) continue;
    const std::string name = entry.substr(0, equals);
    const std::string value = entry.substr(equals + 1);
    if (name == kConfigVariable || name.starts_with(kTestPrefix)) continue;
    const int setting = schema.FindVariable(name);
    if (IsServiceLink(name, value)) {
      if (setting >= 0) {
        out.warnings.push_back(name + ": " + Quoted(value) +
                               " is a Kubernetes service link, not a setting: ignored");
      }
      continue;
    }
    if (setting >= 0) {
      if (value.empty()) continue;
      out.assignments.push_back({static_cast<size_t>(setting), value, name, "env " + name});
      continue;
    }
    const std::string nearest = Nearest(name, known);
    out.warnings.push_back("no setting is named " + name + ": ignored" +
                           (nearest.empty() ? "" : "; did you mean " + nearest + "?"));
  }
  // Sorted, since the environment's order means nothing.
  std::ranges::sort(out.warnings);
  return out;
}

std::string VariableIn(const std::vector<std::string>& environment, std::string_view name) {
  std::string value;
  for (const std::string& entry : environment) {
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=') {
      value = entry.substr(name.size() + 1);
    }
  }
  return value;
}

}  // namespace sluice::server::config
