// What the machine and the control groups leave, from made-up /proc and /sys trees of every kind of
// host.

#include "engine/base/system.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace sluice::engine {
namespace {

constexpr int64_t kMiB = 1 << 20;

// A folder that stands for the file system's root.
class Tree {
 public:
  Tree()
      : root_(::testing::TempDir() + "system_test_" + std::to_string(getpid()) + "_" +
              std::to_string(++count_)) {}
  ~Tree() { std::filesystem::remove_all(root_); }
  Tree& Write(const std::string& path, const std::string& text) {
    const std::filesystem::path full = root_ + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
    return *this;
  }
  const std::string& root() const { return root_; }

 private:
  static inline int count_ = 0;
  const std::string root_;
};

const char kMemInfo[] = "MemFree:  100 kB\nMemTotal:       8388608 kB\nBuffers: 1 kB\n";

TEST(SystemTest, ParsesMemoryLimits) {
  EXPECT_EQ(ParseMemoryLimit("1073741824\n"), 1073741824);
  EXPECT_EQ(ParseMemoryLimit("0\n"), 0);
  EXPECT_EQ(ParseMemoryLimit("max\n"), std::nullopt);
  EXPECT_EQ(ParseMemoryLimit("9223372036854771712\n"), std::nullopt);
  EXPECT_EQ(ParseMemoryLimit("-1\n"), std::nullopt);
  EXPECT_EQ(ParseMemoryLimit(""), std::nullopt);
  EXPECT_EQ(ParseMemoryLimit("99999999999999999999999"), std::nullopt);
}

TEST(SystemTest, ParsesCpuMax) {
  EXPECT_EQ(ParseCpuMax("200000 100000\n"), 2.0);
  EXPECT_EQ(ParseCpuMax("150000 100000\n"), 1.5);
  EXPECT_EQ(ParseCpuMax("max 100000\n"), std::nullopt);
  EXPECT_EQ(ParseCpuMax("100000"), std::nullopt);
  EXPECT_EQ(ParseCpuMax("100000 0"), std::nullopt);
  EXPECT_EQ(ParseCpuMax("-1 100000"), std::nullopt);
  EXPECT_EQ(ParseCpuMax(""), std::nullopt);
}

TEST(SystemTest, ParsesMemTotal) {
  EXPECT_EQ(ParseMemTotal(kMemInfo), 8192 * kMiB);
  EXPECT_EQ(ParseMemTotal("MemTotal: many kB"), std::nullopt);
  EXPECT_EQ(ParseMemTotal("NotMemTotal: 5 kB"), std::nullopt);
  EXPECT_EQ(ParseMemTotal(""), std::nullopt);
}

TEST(SystemTest, ParsesCgroupPaths) {
  const char text[] =
      "9:name=systemd:/\n4:memory:/docker/ab\n3:cpuset:/other\n2:cpu,cpuacct:/both/\n0::/v2/x\n";
  EXPECT_EQ(ParseCgroupPath(text, "memory"), "/docker/ab");
  EXPECT_EQ(ParseCgroupPath(text, "cpu"), "/both");
  EXPECT_EQ(ParseCgroupPath(text, "cpuacct"), "/both");
  EXPECT_EQ(ParseCgroupPath(text, ""), "/v2/x");
  EXPECT_EQ(ParseCgroupPath(text, "blkio"), std::nullopt);
  EXPECT_EQ(ParseCgroupPath("garbage\n:\n", ""), std::nullopt);
}

TEST(SystemTest, WithoutControlGroupsTheMachineIsTheLimit) {
  Tree tree;
  EXPECT_EQ(MemoryLimitBytes(tree.root()), 0);
  tree.Write("/proc/meminfo", kMemInfo);
  EXPECT_EQ(MemoryLimitBytes(tree.root()), 8192 * kMiB);
  EXPECT_EQ(CpuQuota(tree.root()), std::nullopt);
  EXPECT_GE(ComputeThreads(tree.root()), 1);
}

TEST(SystemTest, VersionTwoCountsAncestors) {
  Tree tree;
  tree.Write("/proc/meminfo", kMemInfo)
      .Write("/proc/self/cgroup", "0::/pod/container\n")
      .Write("/sys/fs/cgroup/pod/memory.max", "1073741824\n")
      .Write("/sys/fs/cgroup/pod/container/memory.max", "max\n")
      .Write("/sys/fs/cgroup/pod/container/cpu.max", "250000 100000\n")
      .Write("/sys/fs/cgroup/pod/cpu.max", "100000 100000\n");
  EXPECT_EQ(MemoryLimitBytes(tree.root()), 1024 * kMiB);
  EXPECT_EQ(CpuQuota(tree.root()), 1.0);
  EXPECT_EQ(ComputeThreads(tree.root()), 1);
}

TEST(SystemTest, VersionOneInAContainerSeesItsOwnGroupAsTheRoot) {
  Tree tree;
  tree.Write("/proc/meminfo", kMemInfo)
      .Write("/proc/self/cgroup", "4:memory:/docker/ab\n1:cpu,cpuacct:/docker/ab\n")
      .Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n")
      .Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n")
      .Write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(MemoryLimitBytes(tree.root()), 512 * kMiB);
  EXPECT_EQ(CpuQuota(tree.root()), 0.5);
  EXPECT_EQ(ComputeThreads(tree.root()), 1);  // never none
}

TEST(SystemTest, NoQuotaIsNoLimit) {
  Tree tree;
  tree.Write("/proc/meminfo", kMemInfo)
      .Write("/proc/self/cgroup", "4:memory:/\n1:cpu:/\n0::/\n")
      .Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
      .Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n")
      .Write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(MemoryLimitBytes(tree.root()), 8192 * kMiB);
  EXPECT_EQ(CpuQuota(tree.root()), std::nullopt);
}

TEST(SystemTest, ThisMachineHasMemoryAndAProcessor) {
  EXPECT_GT(MemoryLimitBytes(), 16 * kMiB);
  EXPECT_GE(ComputeThreads(), 1);
}

}  // namespace
}  // namespace sluice::engine
