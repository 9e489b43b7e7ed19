#include "server/metrics/process_stats.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace sluice::server {
namespace {

std::string ReadAll(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

double BootTime() {
  std::istringstream lines(ReadAll("/proc/stat"));
  std::string word;
  double seconds = 0;
  while (lines >> word) {
    if (word == "btime" && lines >> seconds) return seconds;
  }
  return 0;
}

}  // namespace

ProcessStats ReadProcessStats() {
  ProcessStats stats;
  const std::string line = ReadAll("/proc/self/stat");
  // The command's name, in parentheses, may hold anything: fields are counted after it (proc(5)).
  const size_t end = line.rfind(')');
  if (end == std::string::npos) return stats;
  std::istringstream rest(line.substr(end + 1));
  const std::vector<std::string> fields{std::istream_iterator<std::string>(rest), {}};
  const auto field = [&](size_t number) {  // as proc(5) numbers them
    return number - 3 < fields.size() ? std::strtoll(fields[number - 3].c_str(), nullptr, 10) : 0;
  };
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  stats.cpu_seconds = static_cast<double>(field(14) + field(15)) / ticks;
  stats.threads = field(20);
  stats.start_time_seconds = BootTime() + static_cast<double>(field(22)) / ticks;
  stats.virtual_bytes = field(23);
  stats.resident_bytes = field(24) * sysconf(_SC_PAGESIZE);
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) stats.max_fds = static_cast<int64_t>(files.rlim_cur);
  std::error_code error;
  for (std::filesystem::directory_iterator it("/proc/self/fd", error), done; !error && it != done;
       it.increment(error)) {
    ++stats.open_fds;
  }
  return stats;
}

}  // namespace sluice::server
