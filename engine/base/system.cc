#include "engine/base/system.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <functional>
#include <iterator>
#include <thread>

namespace sluice::engine {
namespace {

std::optional<std::string> ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// The first number of the text, after blanks.
std::optional<int64_t> ParseNumber(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return std::nullopt;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + begin, text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

template <typename Visit>
void ForEachLine(std::string_view text, const Visit& visit) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    visit(text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

// Whether `name` is one of the names between the commas.
bool Lists(std::string_view names, std::string_view name) {
  while (true) {
    const size_t comma = names.find(',');
    if (names.substr(0, comma) == name) return true;
    if (comma == std::string_view::npos) return false;
    names.remove_prefix(comma + 1);
  }
}

// Visits the folder of the group `path` below `mount` and those of its ancestors. In a container
// the path may be the host's, of which only the root is mounted: it is among the ancestors.
void ForEachGroup(const std::string& mount, std::string path,
                  const std::function<void(const std::string& folder)>& visit) {
  while (true) {
    visit(mount + path);
    const size_t slash = path.rfind('/');
    if (path.empty() || slash == std::string::npos) return;
    path.resize(slash);
  }
}

// The folders that may limit the process, from its own group up: version 2 at its two usual places,
// then version 1's hierarchy of the controller.
void ForEachLimitFolder(const std::string& root, std::string_view controller,
                        const std::function<void(const std::string& folder)>& visit) {
  const std::string groups = ReadFile(root + "/proc/self/cgroup").value_or("");
  const std::string mount = root + "/sys/fs/cgroup";
  if (const auto path = ParseCgroupPath(groups, "")) {
    ForEachGroup(mount, *path, visit);
    ForEachGroup(mount + "/unified", *path, visit);
  }
  if (const auto path = ParseCgroupPath(groups, controller)) {
    ForEachGroup(mount + "/" + std::string(controller), *path, visit);
  }
}

}  // namespace

std::optional<int64_t> ParseMemoryLimit(std::string_view text) {
  constexpr int64_t kBeyondAnyMemory = int64_t{1} << 60;  // version 1 says "none" as almost 2^63
  const auto value = ParseNumber(text);
  if (!value || *value < 0 || *value >= kBeyondAnyMemory) return std::nullopt;
  return value;
}

std::optional<double> ParseCpuMax(std::string_view text) {
  const auto quota = ParseNumber(text);
  const size_t blank = text.find(' ');
  if (!quota || *quota <= 0 || blank == std::string_view::npos) return std::nullopt;
  const auto period = ParseNumber(text.substr(blank));
  if (!period || *period <= 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

std::optional<int64_t> ParseMemTotal(std::string_view text) {
  std::optional<int64_t> bytes;
  ForEachLine(text, [&](std::string_view line) {
    constexpr std::string_view kKey = "MemTotal:";
    if (!line.starts_with(kKey)) return;
    const auto kib = ParseNumber(line.substr(kKey.size()));
    if (kib && *kib > 0 && *kib < (int64_t{1} << 50)) bytes = *kib * 1024;
  });
  return bytes;
}

std::optional<std::string> ParseCgroupPath(std::string_view text, std::string_view controller) {
  std::optional<std::string> path;
  ForEachLine(text, [&](std::string_view line) {  // number:controller,controller:path
    const size_t first = line.find(':');
    if (first == std::string_view::npos) return;
    const size_t second = line.find(':', first + 1);
    if (second == std::string_view::npos) return;
    if (!Lists(line.substr(first + 1, second - first - 1), controller)) return;
    path = line.substr(second + 1);
    if (path->ends_with('/')) path->pop_back();
  });
  return path;
}

int64_t MemoryLimitBytes(const std::string& root) {
  int64_t limit = INT64_MAX;
  if (const auto text = ReadFile(root + "/proc/meminfo")) {
    limit = std::min(limit, ParseMemTotal(*text).value_or(INT64_MAX));
  }
  ForEachLimitFolder(root, "memory", [&](const std::string& folder) {
    for (const char* file : {"/memory.max", "/memory.limit_in_bytes"}) {
      if (const auto text = ReadFile(folder + file)) {
        limit = std::min(limit, ParseMemoryLimit(*text).value_or(INT64_MAX));
      }
    }
  });
  return limit == INT64_MAX ? 0 : limit;
}

std::optional<double> CpuQuota(const std::string& root) {
  std::optional<double> quota;
  const auto take = [&quota](std::optional<double> other) {
    if (other && (!quota || *other < *quota)) quota = other;
  };
  ForEachLimitFolder(root, "cpu", [&](const std::string& folder) {
    if (const auto text = ReadFile(folder + "/cpu.max")) take(ParseCpuMax(*text));
    const auto quota_us = ReadFile(folder + "/cpu.cfs_quota_us");
    const auto period_us = ReadFile(folder + "/cpu.cfs_period_us");
    if (quota_us && period_us) {
      take(ParseCpuMax(quota_us->substr(0, quota_us->find('\n')) + " " + *period_us));
    }
  });
  return quota;
}

int ComputeThreads(const std::string& root) {
  int processors = static_cast<int>(std::thread::hardware_concurrency());
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) processors = CPU_COUNT(&set);
  const double quota = CpuQuota(root).value_or(processors);
  return std::max(1, std::min(processors, static_cast<int>(quota)));
}

}  // namespace sluice::engine
