#pragma once

#include <cstdlib>
#include <sstream>
#include <string>

#include "engine/base/log.h"

// ENGINE_CHECK(condition) << "values": for our own errors only (a block returned twice, a lost
// sequence). What a caller can cause is an absl::Status. The process ends after the line is
// written.
namespace sluice::engine {

// Collects the message and ends the process when destroyed.
class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* condition) {
    stream_ << file << ":" << line << ": check failed: " << condition << " ";
  }
  [[noreturn]] ~CheckFailure() {
    Log(LogLevel::kError, stream_.str());
    std::abort();
  }
  std::ostream& stream() { return stream_; }

 private:
  std::ostringstream stream_;
};

}  // namespace sluice::engine

#define ENGINE_CHECK(condition) \
  if (condition) [[likely]] {   \
  } else                        \
    ::sluice::engine::CheckFailure(__FILE__, __LINE__, #condition).stream()
