#pragma once

#include <string>
#include <string_view>

namespace sluice::server {

// "stop[2]" of "stop[2]: must not be empty"; empty when the message names no field.
std::string LeadingField(std::string_view message);

}  // namespace sluice::server
