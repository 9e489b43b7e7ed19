#include "kernels/cpu/page_populator.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace sluice::kernels {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

std::byte* MapPages(size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return data == MAP_FAILED ? nullptr : static_cast<std::byte*>(data);
}

bool AllResident(std::byte* data, size_t bytes) {
  std::vector<unsigned char> pages(bytes / static_cast<size_t>(sysconf(_SC_PAGESIZE)));
  if (mincore(data, bytes, pages.data()) != 0) return false;
  for (const unsigned char page : pages) {
    if ((page & 1) == 0) return false;
  }
  return true;
}

uint32_t Idle() { return 0; }

TEST(PagePopulator, BacksEveryRangeAndLeavesItsContents) {
  std::byte* first = MapPages(24 * kMiB);
  std::byte* second = MapPages(3 * kMiB);
  ASSERT_TRUE(first != nullptr && second != nullptr);
  std::atomic<uint32_t> work = 0;
  PagePopulator populator([&] { return work++ / 2; });  // every other time busy
  populator.Add(first, 24 * kMiB);
  populator.Add(second, 3 * kMiB);
  // As a step would, while it works.
  for (size_t at = 0; at < 24 * kMiB; at += 64 << 10) first[at] = std::byte{7};
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!AllResident(first, 24 * kMiB) || !AllResident(second, 3 * kMiB)) {
    if (std::chrono::steady_clock::now() > give_up) {
      GTEST_SKIP() << "this kernel has no MADV_POPULATE_WRITE, or no processor was ever idle";
    }
    std::this_thread::yield();
  }
  for (size_t at = 0; at < 24 * kMiB; ++at) {
    ASSERT_EQ(first[at], at % (64 << 10) == 0 ? std::byte{7} : std::byte{0}) << at;
  }
  populator.Remove(first);
  populator.Remove(second);
  munmap(first, 24 * kMiB);
  munmap(second, 3 * kMiB);
}

// Memory may be given back at any time, and the populator may end with work left.
TEST(PagePopulator, RangesMayGoBeforeTheyAreDone) {
  for (int round = 0; round < 50; ++round) {
    PagePopulator populator(Idle);
    std::byte* kept = MapPages(8 * kMiB);
    for (int i = 0; i < 3; ++i) {
      std::byte* gone = MapPages(8 * kMiB);
      ASSERT_TRUE(kept != nullptr && gone != nullptr);
      populator.Add(gone, 8 * kMiB);
      if (i == 1) populator.Add(kept, 8 * kMiB);
      populator.Remove(gone);
      munmap(gone, 8 * kMiB);
    }
    populator.Remove(kept);
    munmap(kept, 8 * kMiB);
  }
}

}  // namespace
}  // namespace sluice::kernels
