#pragma once

#include <string>
#include <string_view>

namespace sluice::server {

// 32 random hexadecimal digits. Thread-safe.
std::string RandomHexId();

// A random number from the same source.
unsigned long long RandomBits();

// `wanted` when it is safe to log and to send back (1 to 128 letters, digits and "-_.:/+=~"), else
// a new id.
std::string SoundRequestId(std::string_view wanted);

}  // namespace sluice::server
