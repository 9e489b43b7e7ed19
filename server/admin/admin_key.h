#pragma once

#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace sluice::server {

// The key that opens /admin. Kept in a file of its own, such as a mounted secret, so that it is in
// no configuration, process list or log.

inline constexpr size_t kAdminKeyBytesMin = 16;
inline constexpr size_t kAdminKeyBytesMax = 4096;

// The file's content without white space at its end. NotFound: it can't be read. InvalidArgument:
// it is too short, too long, or holds something else than visible ASCII characters.
absl::StatusOr<std::string> ReadAdminKey(const std::string& path);

// Whether an Authorization header, "Bearer KEY", names the key. The time it takes tells nothing of
// the key but its length.
bool NamesKey(std::string_view authorization, std::string_view key);

}  // namespace sluice::server
