#include "server/base/clip.h"

namespace sluice::server {

std::string Clip(std::string_view text, size_t bytes_max) {
  if (text.size() <= bytes_max) return std::string(text);
  while (bytes_max > 0 && (static_cast<unsigned char>(text[bytes_max]) & 0xC0) == 0x80) --bytes_max;
  return std::string(text.substr(0, bytes_max)) + "...";
}

}  // namespace sluice::server
