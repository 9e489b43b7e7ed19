#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "engine/template/ast.h"

namespace sluice::engine::jinja {

// Parses a normalised source. InvalidArgument with line and column, and what was expected there,
// when it is not a template; `nesting_max` bounds brackets within brackets, blocks within blocks
// and the like.
absl::StatusOr<std::unique_ptr<const Template>> Parse(std::string source, int nesting_max);

}  // namespace sluice::engine::jinja
