#pragma once

#include <set>
#include <string>
#include <vector>

#include "server/config/settings/effective.h"

namespace sluice::server::config {

struct Flags {
  Reading reading;
  std::string config_file;         // --config FILE; empty: not given
  std::set<std::string> switches;  // those given, without dashes; "help" also for -h
};

// Reads `--flag VALUE`, `--flag=VALUE`, `-m VALUE`, `-mVALUE`, `--set PATH=VALUE`, `--config FILE`,
// and the flags without a value named in `switches`. A flag of a bool may stand without a value for
// true. There are no abbreviations: one that works today may be ambiguous tomorrow. What is given
// twice is an error, and so is an argument that belongs to no flag.
Flags ReadFlags(const Schema& schema, const std::vector<std::string>& arguments,
                const std::set<std::string>& switches);

}  // namespace sluice::server::config
