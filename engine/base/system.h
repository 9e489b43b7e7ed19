#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// What the machine and the control groups leave to this process. Files are read under `root`: empty
// for the machine itself, a folder with a copy of /proc and /sys in tests. What can't be read or
// understood counts as no limit.
namespace sluice::engine {

// The smaller of the machine's memory and the memory limits of the process's control groups, of
// both versions, with all their ancestors. 0 when nothing is known.
int64_t MemoryLimitBytes(const std::string& root = "");

// Processors' worth of time that the control groups give the process; empty: no limit.
std::optional<double> CpuQuota(const std::string& root = "");

// Threads that can compute at once: the processors the process may run on (sched_getaffinity), and
// no more than the whole part of the quota. At least 1.
int ComputeThreads(const std::string& root = "");

// The parts, over the files' contents.
// memory.max, memory.limit_in_bytes: "max" and numbers beyond any memory are no limit.
std::optional<int64_t> ParseMemoryLimit(std::string_view text);
// cpu.max: "QUOTA PERIOD" or "max PERIOD", in microseconds.
std::optional<double> ParseCpuMax(std::string_view text);
// /proc/meminfo: MemTotal in bytes.
std::optional<int64_t> ParseMemTotal(std::string_view text);
// /proc/self/cgroup: the process's path in the hierarchy of `controller`; of version 2 when that is
// empty.
std::optional<std::string> ParseCgroupPath(std::string_view text, std::string_view controller);

}  // namespace sluice::engine
