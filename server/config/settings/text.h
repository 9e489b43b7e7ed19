#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace sluice::server::config {

// For a message: in double quotes, without control characters, cut when long.
std::string Quoted(std::string_view text);

// A scalar that YAML reads back as this text: plain when no reader could take it for anything else,
// else in double quotes. `text` has passed CheckText.
std::string YamlScalar(std::string_view text);

// Refuses invalid UTF-8 and control characters, tabs and line ends among them.
absl::Status CheckText(std::string_view text);

// The candidate with the smallest edit distance to `word`, if that is small enough to be a typing
// error; else empty. Distance counts insertions, deletions, substitutions and swaps of neighbours;
// '-', '_' and '.' count as equal, and so do upper and lower case.
std::string Nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace sluice::server::config
