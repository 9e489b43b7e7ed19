#include "server/base/request_id.h"

#include <cstdio>
#include <random>

namespace sluice::server {
namespace {

std::mt19937_64 SeededGenerator() {
  std::random_device source;
  std::seed_seq seed{source(), source(), source(), source(), source(), source()};
  return std::mt19937_64(seed);
}

bool IsSound(unsigned char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         std::string_view("-_.:/+=~").find(static_cast<char>(c)) != std::string_view::npos;
}

}  // namespace

unsigned long long RandomBits() {
  thread_local std::mt19937_64 generator = SeededGenerator();
  return generator();
}

std::string RandomHexId() {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", RandomBits(), RandomBits());
  return text;
}

std::string SoundRequestId(std::string_view wanted) {
  if (wanted.empty() || wanted.size() > 128) return RandomHexId();
  for (const char c : wanted) {
    if (!IsSound(static_cast<unsigned char>(c))) return RandomHexId();
  }
  return std::string(wanted);
}

}  // namespace sluice::server
