#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "server/config/settings/effective.h"

namespace sluice::server::config {

inline constexpr size_t kYamlBytesMax = 256 << 10;
inline constexpr int kYamlDepthMax = 8;

// Reads a YAML text: one mapping of sections to mappings of settings to scalars. A scalar is taken
// as it is written, quoted or not: the setting's type says what it means. Refused, with
// "name:line: ": unknown keys (with the nearest known one), keys given twice, values of a wrong
// shape, keys without a value, anchors, aliases, tags, a second document, invalid UTF-8, more than
// kYamlBytesMax bytes, deeper nesting than kYamlDepthMax. Work is bounded by the size.
Reading ReadYaml(const Schema& schema, std::string_view text, const std::string& name);

// The same from a file; reads at most kYamlBytesMax + 1 bytes of whatever `path` is.
Reading ReadYamlFile(const Schema& schema, const std::string& path);

}  // namespace sluice::server::config
