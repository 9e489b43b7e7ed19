#include "server/base/leading_field.h"

namespace sluice::server {

std::string LeadingField(std::string_view message) {
  const size_t colon = message.find(": ");
  if (colon == std::string_view::npos || colon == 0) return {};
  const std::string_view field = message.substr(0, colon);
  for (const char c : field) {
    const bool word = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
                      c == '[' || c == ']';
    if (!word) return {};
  }
  return std::string(field);
}

}  // namespace sluice::server
