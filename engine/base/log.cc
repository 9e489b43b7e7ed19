#include "engine/base/log.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>

namespace sluice::engine {
namespace {
std::atomic<LogLevel> g_level{LogLevel::kInfo};
}  // namespace

void SetLogLevel(LogLevel level) { g_level.store(level, std::memory_order_relaxed); }

void Log(LogLevel level, std::string_view text) {
  if (level < g_level.load(std::memory_order_relaxed)) return;
  const auto now = std::chrono::system_clock::now();
  const auto ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count();
  const std::time_t seconds = ms / 1000;
  std::tm tm{};
  gmtime_r(&seconds, &tm);
  char head[48];
  const size_t n = std::strftime(head, sizeof head, "%Y-%m-%dT%H:%M:%S", &tm);
  std::snprintf(head + n, sizeof head - n, ".%03dZ %c ", static_cast<int>(ms % 1000),
                "DIWE"[static_cast<int>(level)]);
  std::string line(head);
  line.append(text).push_back('\n');
  // A log line that cannot be written has nowhere to be reported.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace sluice::engine
