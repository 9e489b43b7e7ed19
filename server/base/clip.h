#pragma once

#include <string>
#include <string_view>

namespace sluice::server {

// `text` cut to a length that fits a message, always valid UTF-8 if `text` is.
std::string Clip(std::string_view text, size_t bytes_max = 64);

}  // namespace sluice::server
