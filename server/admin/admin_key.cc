#include "server/admin/admin_key.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "absl/strings/match.h"

namespace sluice::server {

absl::StatusOr<std::string> ReadAdminKey(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string key(kAdminKeyBytesMax + 1, '\0');
  errno = 0;
  if (!file || (!file.read(key.data(), static_cast<std::streamsize>(key.size())) && !file.eof())) {
    return engine::NotFound("http.admin_key_file: cannot read '" + path +
                            "': " + (errno != 0 ? std::strerror(errno) : "it is no file"));
  }
  key.resize(static_cast<size_t>(file.gcount()));
  const bool too_long = key.size() > kAdminKeyBytesMax;
  key.erase(key.find_last_not_of(" \t\r\n") + 1);
  if (key.size() < kAdminKeyBytesMin || too_long) {
    return engine::InvalidArgument(
        "http.admin_key_file: '" + path + "' holds " +
        (too_long ? "more than " + std::to_string(kAdminKeyBytesMax) : std::to_string(key.size())) +
        " bytes, not " + std::to_string(kAdminKeyBytesMin) + " to " +
        std::to_string(kAdminKeyBytesMax));
  }
  const auto visible = [](char c) { return c > ' ' && c < 0x7F; };
  if (!std::all_of(key.begin(), key.end(), visible)) {
    return engine::InvalidArgument("http.admin_key_file: the key in '" + path +
                                   "' has other than visible ASCII characters");
  }
  return key;
}

bool NamesKey(std::string_view authorization, std::string_view key) {
  constexpr std::string_view kScheme = "Bearer ";
  if (!absl::StartsWithIgnoreCase(engine::ToAbsl(authorization), engine::ToAbsl(kScheme))) {
    return false;
  }
  const std::string_view given = authorization.substr(kScheme.size());
  if (given.size() != key.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < key.size(); ++i) {
    difference |= static_cast<unsigned>(static_cast<unsigned char>(given[i]) ^
                                        static_cast<unsigned char>(key[i]));
  }
  return difference == 0;
}

}  // namespace sluice::server
