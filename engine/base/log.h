#pragma once

#include <sstream>
#include <string_view>

namespace sluice::engine {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Lines below this level are dropped. Default kInfo. Thread-safe.
void SetLogLevel(LogLevel level);

// Writes one line to stderr: time (UTC, milliseconds), level letter, text. Thread-safe; one write
// call a line.
void Log(LogLevel level, std::string_view text);

// SLUICE_LOG(kInfo) << "loaded " << n << " tensors";
class LogLine {
 public:
  explicit LogLine(LogLevel level) : level_(level) {}
  ~LogLine() { Log(level_, stream_.str()); }
  LogLine(const LogLine&) = delete;
  LogLine& operator=(const LogLine&) = delete;
  std::ostream& stream() { return stream_; }

 private:
  LogLevel level_;
  std::ostringstream stream_;
};

}  // namespace sluice::engine

#define SLUICE_LOG(level) ::sluice::engine::LogLine(::sluice::engine::LogLevel::level).stream()
