#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>

namespace sluice::engine {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
enum class LogFormat { kText, kJson };

struct LogOptions {
  LogLevel level = LogLevel::kInfo;  // lines below it are left out
  LogFormat format = LogFormat::kText;
  // Lines of one place in the code in one second; of more, the log says how many there were. 0: all
  // are written.
  int repeats_max = 100;
  // Whether the beginning of each prompt is written. Not unless asked: it is the callers' own text.
  bool prompts = false;
};

// Thread-safe; meant for the start, since lines under way may still go by the old options.
void SetLogOptions(const LogOptions& options);
void SetLogLevel(LogLevel level);
LogFormat CurrentLogFormat();
bool LogsPrompts();

// Writes what was left out and not yet told of. At the process's end.
void FlushLog();

// One line to stderr, in one write. Thread-safe. Text: time (UTC, milliseconds), level letter,
// message, fields as key=value. JSON: an object with ts, level, msg and the fields. Whatever bytes
// message and values have, the line stays one line and valid UTF-8, and a value stays inside its
// quotes (log_text.h); what is very long is clipped.
void Log(LogLevel level, std::string_view text);

// A place in the code that logs: says whether its next line is to be written. Thread-safe; lives
// for ever.
class LogSite {
 public:
  constexpr LogSite(const char* file, int line, LogLevel level)
      : file_(file), line_(line), level_(level) {}
  LogSite(const LogSite&) = delete;
  LogSite& operator=(const LogSite&) = delete;

  bool Admit();

 private:
  friend void FlushSites(bool all);
  bool Suppress();
  void TellSuppressed();

  const char* const file_;
  const int line_;
  const LogLevel level_;
  std::atomic<uint64_t> window_{0};  // the second, and in the low half how many lines it had
  std::atomic<uint64_t> suppressed_{0};
  std::atomic<bool> listed_{false};
  LogSite* next_ = nullptr;  // in the list of sites that ever left something out
};

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

// SLUICE_LOG_EVENT(kInfo, "request").Word("id", id).Number("prompt_tokens", n);
class LogEvent {
 public:
  LogEvent(LogLevel level, std::string_view message);
  ~LogEvent();
  LogEvent(const LogEvent&) = delete;
  LogEvent& operator=(const LogEvent&) = delete;

  // A name, an id, a path: in text quoted only where that is needed. Empty: "-".
  LogEvent& Word(std::string_view key, std::string_view value);
  // In text always quoted. At most `bytes_max` of it are written.
  LogEvent& Text(std::string_view key, std::string_view value, size_t bytes_max = 512);
  LogEvent& Number(std::string_view key, double value, int decimals);
  template <std::integral T>
  LogEvent& Number(std::string_view key, T value) {
    return Raw(key, std::to_string(value));
  }

 private:
  LogEvent& Raw(std::string_view key, std::string_view value);
  void Key(std::string_view key);

  const LogLevel level_;
  const LogFormat format_;
  std::string line_;
};

// Lets a log statement be an expression of type void.
struct LogVoid {
  void operator&(std::ostream&) const {}
  void operator&(const LogEvent&) const {}
};

}  // namespace sluice::engine

#define SLUICE_LOG_SITE_(level)                                                                   \
  ([]() -> ::sluice::engine::LogSite& {                                                           \
    static ::sluice::engine::LogSite site(__FILE__, __LINE__, ::sluice::engine::LogLevel::level); \
    return site;                                                                                  \
  }())

// What is behind them is only computed when the line is written.
#define SLUICE_LOG(level)             \
  !SLUICE_LOG_SITE_(level).Admit()    \
      ? (void)0                       \
      : ::sluice::engine::LogVoid() & \
            ::sluice::engine::LogLine(::sluice::engine::LogLevel::level).stream()
#define SLUICE_LOG_EVENT(level, message) \
  !SLUICE_LOG_SITE_(level).Admit()       \
      ? (void)0                          \
      : ::sluice::engine::LogVoid() &    \
            ::sluice::engine::LogEvent(::sluice::engine::LogLevel::level, message)
