#include "engine/base/log.h"

#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "engine/base/log_text.h"

namespace sluice::engine {
namespace {

constexpr size_t kMessageBytesMax = 4096;
constexpr size_t kWordBytesMax = 256;

std::atomic<LogLevel> g_level{LogLevel::kInfo};
std::atomic<LogFormat> g_format{LogFormat::kText};
std::atomic<int> g_repeats_max{LogOptions().repeats_max};
std::atomic<bool> g_prompts{false};
std::atomic<LogSite*> g_sites{nullptr};  // that have ever left something out
std::atomic<bool> g_suppressing{false};  // one of them may have something to tell

constexpr const char* kLevelNames[] = {"debug", "info", "warning", "error"};

uint64_t SteadySecond() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(now).count()) + 1;
}

// "2026-01-31T12:00:00.000Z"
void AppendTime(std::string* out) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  const std::time_t seconds = ms / 1000;
  std::tm tm{};
  gmtime_r(&seconds, &tm);
  char text[48];
  const size_t n = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
  std::snprintf(text + n, sizeof text - n, ".%03dZ", static_cast<int>(ms % 1000));
  *out += text;
}

void AppendHead(std::string* out, LogLevel level, LogFormat format, std::string_view message) {
  const std::string clipped = ClipLogText(message, kMessageBytesMax);
  if (format == LogFormat::kText) {
    AppendTime(out);
    *out += ' ';
    *out += "DIWE"[static_cast<int>(level)];
    *out += ' ';
    AppendLogText(out, clipped, false);
    return;
  }
  *out += "{\"ts\":\"";
  AppendTime(out);
  *out += "\",\"level\":\"";
  *out += kLevelNames[static_cast<int>(level)];
  *out += "\",\"msg\":\"";
  AppendLogJson(out, clipped);
  *out += '"';
}

void WriteLine(std::string line, LogFormat format) {
  line += format == LogFormat::kJson ? "}\n" : "\n";
  // A log line that cannot be written has nowhere to be reported.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

bool NeedsQuotes(std::string_view value) {
  for (const char c : value) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       (c != 0 && std::strchr("-_.:/+=~,@", c) != nullptr);
    if (!plain) return true;
  }
  return false;
}

}  // namespace

// Tells what sites left out in seconds that are over; with `all`, also in this one.
void FlushSites(bool all) {
  if (!g_suppressing.exchange(false)) return;
  const uint64_t now = SteadySecond();
  for (LogSite* site = g_sites.load(); site != nullptr; site = site->next_) {
    if (site->suppressed_.load() == 0) continue;
    if (all || site->window_.load() >> 32 != (now & 0xFFFFFFFF)) {
      site->TellSuppressed();
    } else {
      g_suppressing.store(true);
    }
  }
}

void SetLogOptions(const LogOptions& options) {
  g_level.store(options.level);
  g_format.store(options.format);
  g_repeats_max.store(options.repeats_max);
  g_prompts.store(options.prompts);
}
void SetLogLevel(LogLevel level) { g_level.store(level, std::memory_order_relaxed); }
LogFormat CurrentLogFormat() { return g_format.load(std::memory_order_relaxed); }
bool LogsPrompts() { return g_prompts.load(std::memory_order_relaxed); }
void FlushLog() { FlushSites(true); }

bool LogSite::Admit() {
  if (level_ < g_level.load(std::memory_order_relaxed)) return false;
  const int repeats_max = g_repeats_max.load(std::memory_order_relaxed);
  if (g_suppressing.load(std::memory_order_relaxed)) FlushSites(false);
  if (repeats_max <= 0) return true;
  const uint64_t second = SteadySecond() & 0xFFFFFFFF;
  uint64_t seen = window_.load(std::memory_order_relaxed);
  for (;;) {
    const uint64_t lines = seen >> 32 == second ? seen & 0xFFFFFFFF : 0;
    if (lines >= static_cast<uint64_t>(repeats_max)) return Suppress();
    if (window_.compare_exchange_weak(seen, second << 32 | (lines + 1))) return true;
  }
}

bool LogSite::Suppress() {
  if (!listed_.exchange(true)) {
    next_ = g_sites.load();
    while (!g_sites.compare_exchange_weak(next_, this)) {
    }
  }
  suppressed_.fetch_add(1);
  g_suppressing.store(true);
  return false;
}

void LogSite::TellSuppressed() {
  const uint64_t count = suppressed_.exchange(0);
  if (count == 0) return;
  const char* slash = std::strrchr(file_, '/');
  const std::string place =
      std::string(slash == nullptr ? file_ : slash + 1) + ":" + std::to_string(line_);
  LogEvent(level_, std::to_string(count) + " similar messages suppressed").Word("at", place);
}

void Log(LogLevel level, std::string_view text) { LogEvent(level, text); }

LogEvent::LogEvent(LogLevel level, std::string_view message)
    : level_(level), format_(CurrentLogFormat()) {
  if (level_ >= g_level.load(std::memory_order_relaxed))
    AppendHead(&line_, level_, format_, message);
}

LogEvent::~LogEvent() {
  if (!line_.empty()) WriteLine(std::move(line_), format_);
}

void LogEvent::Key(std::string_view key) {
  if (format_ == LogFormat::kJson) {
    line_.append(",\"").append(key).append("\":");
  } else {
    line_.append(" ").append(key).append("=");
  }
}

LogEvent& LogEvent::Raw(std::string_view key, std::string_view value) {
  if (line_.empty()) return *this;
  Key(key);
  line_.append(value);
  return *this;
}

LogEvent& LogEvent::Word(std::string_view key, std::string_view value) {
  if (format_ == LogFormat::kJson || NeedsQuotes(value)) return Text(key, value, kWordBytesMax);
  return Raw(key, value.empty() ? "-" : ClipLogText(value, kWordBytesMax));
}

LogEvent& LogEvent::Text(std::string_view key, std::string_view value, size_t bytes_max) {
  if (line_.empty()) return *this;
  Key(key);
  line_ += '"';
  const std::string clipped = ClipLogText(value, bytes_max);
  if (format_ == LogFormat::kJson) {
    AppendLogJson(&line_, clipped);
  } else {
    AppendLogText(&line_, clipped, true);
  }
  line_ += '"';
  return *this;
}

LogEvent& LogEvent::Number(std::string_view key, double value, int decimals) {
  if (!std::isfinite(value)) return Raw(key, "null");
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return Raw(key, text);
}

}  // namespace sluice::engine
