// Logs are read by programs and by people at terminals: whatever a caller puts into a value, a line
// stays a line and a field a field.
#include "engine/base/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/log_text.h"

namespace sluice::engine {
namespace {

// Standard error into a file, for as long as it lives; the options are the default ones again after
// it.
class CapturedLog {
 public:
  explicit CapturedLog(const LogOptions& options) {
    char path[] = "/tmp/sluice_log_XXXXXX";
    const int fd = mkstemp(path);
    path_ = path;
    saved_ = dup(STDERR_FILENO);
    dup2(fd, STDERR_FILENO);
    close(fd);
    SetLogOptions(options);
  }
  ~CapturedLog() {
    Restore();
    unlink(path_.c_str());
    SetLogOptions({});
  }
  std::vector<std::string> Lines() {
    Restore();
    std::ifstream file(path_);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }

 private:
  void Restore() {
    if (saved_ < 0) return;
    dup2(saved_, STDERR_FILENO);
    close(saved_);
    saved_ = -1;
  }
  std::string path_;
  int saved_ = -1;
};

LogOptions Options(LogFormat format, int repeats_max = 0) {
  LogOptions options;
  options.format = format;
  options.repeats_max = repeats_max;
  return options;
}

// Newlines, quotes, backslashes, controls of both sets, a line separator, an override of the
// writing direction, bytes that are no UTF-8 (a lone continuation, a cut-off sequence, an overlong
// slash, a surrogate).
const std::string kHostile =
    "a\nb\r\"c\\d\te\x1b[31m\x7f\xC2\x9B\xE2\x80\xA8\xE2\x80\xAE\x80\xC3\xC0\xAF\xED\xA0\x80"
    "\xF0\x9F\xA6\x99";

std::string Hostile() { return kHostile + std::string(1, '\0') + "end"; }

TEST(LogText, EscapesWhatMovesTheCursorAndReplacesWhatIsNoUtf8) {
  const std::string bad = "\xEF\xBF\xBD";
  std::string text;
  AppendLogText(&text, Hostile(), true);
  EXPECT_EQ(text, "a\\nb\\r\\\"c\\\\d\\te\\x1b[31m\\x7f\\x9b\\u2028\\u202e" + bad + bad + bad +
                      bad + bad + bad + bad + "\xF0\x9F\xA6\x99\\x00end");
  std::string json;
  AppendLogJson(&json, Hostile());
  EXPECT_EQ(json, "a\\nb\\r\\\"c\\\\d\\te\\u001b[31m\\u007f\\u009b\\u2028\\u202e" + bad + bad +
                      bad + bad + bad + bad + bad + "\xF0\x9F\xA6\x99\\u0000end");
  EXPECT_EQ(ValidUtf8("\xF0\x9F\xA6\x99\xF4\x90\x80\x80"),
            "\xF0\x9F\xA6\x99" + bad + bad + bad + bad);
}

TEST(LogText, ClipsBetweenCharacters) {
  EXPECT_EQ(ClipLogText("abc", 3), "abc");
  EXPECT_EQ(ClipLogText("abcd", 3), "abc...");
  EXPECT_EQ(ClipLogText("ab\xF0\x9F\xA6\x99", 4), "ab...");
  EXPECT_EQ(ClipLogText("\x80\x80\x80\x80\x80\x80", 5).size(), 5U - 3 + 3);
  EXPECT_EQ(ClipLogText("abc", 0), "...");
}

TEST(LogTest, TextLinesAreOneLineEach) {
  CapturedLog log(Options(LogFormat::kText));
  SLUICE_LOG(kInfo) << "plain " << 7;
  SLUICE_LOG(kWarning) << "first\n2026-01-01T00:00:00.000Z E forged";
  SLUICE_LOG_EVENT(kInfo, "request")
      .Word("id", "cmpl-1")
      .Word("none", "")
      .Word("path", "/x y\" status=200")
      .Text("model", Hostile())
      .Number("n", 3)
      .Number("ms", 1.25, 1);
  const auto lines = log.Lines();
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0].substr(24), " I plain 7");
  EXPECT_EQ(lines[0][10], 'T');
  EXPECT_EQ(lines[0][23], 'Z');
  EXPECT_EQ(lines[1].substr(24), " W first\\n2026-01-01T00:00:00.000Z E forged");
  EXPECT_TRUE(lines[2].substr(24).starts_with(
      " I request id=cmpl-1 none=- path=\"/x y\\\" status=200\" model=\"a\\nb\\r\\\"c\\\\d"))
      << lines[2];
  EXPECT_EQ(lines[2].substr(lines[2].size() - 11), " n=3 ms=1.2");
}

TEST(LogTest, JsonLinesAreOneObjectEach) {
  CapturedLog log(Options(LogFormat::kJson));
  SLUICE_LOG(kError) << "said \"no\"\n" << Hostile();
  SLUICE_LOG_EVENT(kInfo, "request")
      .Word("id", "x")
      .Text("model", "\"}\n{\"forged\":1")
      .Number("n", 3);
  SLUICE_LOG_EVENT(kInfo, "request").Number("ms", 0.0 / 0.0, 1);
  const auto lines = log.Lines();
  ASSERT_EQ(lines.size(), 3U);
  const std::string begin = "{\"ts\":\"";
  for (const std::string& line : lines) {
    EXPECT_EQ(line.substr(0, begin.size()), begin);
    EXPECT_EQ(line.back(), '}');
  }
  const size_t after_time = begin.size() + 24;
  EXPECT_TRUE(lines[0]
                  .substr(after_time)
                  .starts_with("\",\"level\":\"error\",\"msg\":\"said \\\"no\\\"\\na\\nb"))
      << lines[0];
  EXPECT_EQ(lines[1].substr(after_time),
            "\",\"level\":\"info\",\"msg\":\"request\",\"id\":\"x\",\"model\":\"\\\"}\\n{"
            "\\\"forged\\\":1\","
            "\"n\":3}");
  EXPECT_EQ(lines[2].substr(after_time), "\",\"level\":\"info\",\"msg\":\"request\",\"ms\":null}");
}

TEST(LogTest, LongValuesAreClipped) {
  CapturedLog log(Options(LogFormat::kJson));
  const std::string huge(1 << 20, '\n');
  SLUICE_LOG(kInfo) << huge;
  SLUICE_LOG_EVENT(kInfo, "m").Text("a", huge).Word("b", huge);
  for (const std::string& line : log.Lines()) EXPECT_LT(line.size(), 10000U);
}

TEST(LogTest, WhatIsLeftOutIsNotEvenComputed) {
  CapturedLog log(Options(LogFormat::kText));
  int computed = 0;
  const auto text = [&] { return std::to_string(++computed); };
  SLUICE_LOG(kDebug) << text();
  SLUICE_LOG_EVENT(kDebug, "x").Word("a", text());
  EXPECT_EQ(computed, 0);
  SetLogLevel(LogLevel::kDebug);
  SLUICE_LOG(kDebug) << text();
  SetLogLevel(LogLevel::kError);
  SLUICE_LOG(kWarning) << text();
  EXPECT_EQ(log.Lines().size(), 1U);
  EXPECT_EQ(computed, 1);
}

// A flood from one place costs as many lines as it may, and the log says how many are missing;
// other places go on.
TEST(LogTest, RepeatsAreLimitedAndTold) {
  CapturedLog log(Options(LogFormat::kText, 10));
  constexpr int kThreads = 4;
  constexpr int kEach = 5000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < kEach; ++i) SLUICE_LOG(kWarning) << "flood";
    });
  }
  for (auto& thread : threads) thread.join();
  SLUICE_LOG(kInfo) << "another place";
  FlushLog();
  int floods = 0;
  int told = 0;
  int others = 0;
  for (const std::string& line : log.Lines()) {
    const std::string text = line.substr(27);
    if (text == "flood") {
      ++floods;
    } else if (text == "another place") {
      ++others;
    } else {
      ASSERT_NE(text.find(" similar messages suppressed at=log_test.cc:"), std::string::npos)
          << line;
      EXPECT_EQ(line[25], 'W');
      told += std::stoi(text);
    }
  }
  EXPECT_EQ(others, 1);
  EXPECT_EQ(floods + told, kThreads * kEach);
  EXPECT_GE(floods, 10);
  EXPECT_LT(floods, kThreads * kEach);
}

// The news of what was left out does not wait for that place to log again.
TEST(LogTest, AnyLaterLineTellsOfWhatWasLeftOut) {
  CapturedLog log(Options(LogFormat::kText, 1));
  for (int i = 0; i < 3; ++i) SLUICE_LOG(kInfo) << "repeated";
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(1100)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  SLUICE_LOG(kInfo) << "later";
  bool told = false;
  for (const std::string& line : log.Lines()) {
    told = told || line.find(" similar messages suppressed") != std::string::npos;
  }
  EXPECT_TRUE(told);
}

}  // namespace
}  // namespace sluice::engine
