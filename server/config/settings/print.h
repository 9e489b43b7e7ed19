#pragma once

#include <string>

#include "server/config/settings/effective.h"

namespace sluice::server::config {

// The values that hold as a YAML file that means the same, with a comment on each: where it comes
// from. Secrets are left out: a comment says that there is one.
std::string PrintEffective(const Effective& effective);

// The defaults as a YAML file, with what each setting means, its range and its flag.
std::string PrintDocumented(const Schema& schema);

// The options by section, for --help, without --config, --set and the like.
std::string PrintOptions(const Schema& schema);

// One line of --help: name, then text from column 44 on, wrapped at 100 columns.
std::string OptionLine(const std::string& name, const std::string& text);

}  // namespace sluice::server::config
