#pragma once

#include <string>
#include <string_view>

namespace sluice::server {

// Appends `text` as the inside of a JSON string (without the quotes). Whatever the bytes, the
// result is valid UTF-8: each byte that belongs to no well-formed sequence becomes U+FFFD.
void AppendJsonEscaped(std::string& out, std::string_view text);

// The same with quotes around it.
void AppendJsonString(std::string& out, std::string_view text);

}  // namespace sluice::server
