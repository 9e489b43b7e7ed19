#include "kernels/cpu/thread_pool.h"

#include <atomic>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace sluice::kernels {
namespace {

class ThreadPoolTest : public ::testing::TestWithParam<int> {};

TEST_P(ThreadPoolTest, RunsEachChunkOnceAndReturnsWhenAllAreDone) {
  ThreadPool pool(GetParam());
  EXPECT_EQ(pool.threads(), GetParam());
  for (const int chunks : {0, 1, 2, 3, 7, 64, 1000, ThreadPool::kChunksMax}) {
    std::vector<int> runs(static_cast<size_t>(chunks), 0);  // plain: Run orders the accesses
    pool.Run(chunks, [&](int chunk, int worker) {
      ASSERT_GE(worker, 0);
      ASSERT_LT(worker, GetParam());
      ++runs[static_cast<size_t>(chunk)];
    });
    for (const int count : runs) ASSERT_EQ(count, 1);
  }
}

// What one run wrote, the next run and the caller can read, whichever threads took part.
TEST_P(ThreadPoolTest, RunsFollowOneAnother) {
  ThreadPool pool(GetParam());
  constexpr size_t kChunks = 5;
  std::vector<int64_t> values(kChunks, 0), next(kChunks, 0);
  for (int round = 0; round < 20000; ++round) {
    // Each chunk reads what another chunk wrote the round before.
    pool.Run(kChunks, [&](int chunk, int) {
      const auto c = static_cast<size_t>(chunk);
      next[c] = values[(c + 1) % kChunks] + 1;
    });
    std::swap(values, next);
    ASSERT_EQ(values[static_cast<size_t>(round) % kChunks], round + 1);
  }
}

// A worker index is never used by two threads at once.
TEST_P(ThreadPoolTest, WorkersHaveIndicesOfTheirOwn) {
  ThreadPool pool(GetParam());
  std::vector<std::atomic<int>> inside(static_cast<size_t>(GetParam()));
  for (int round = 0; round < 500; ++round) {
    pool.Run(16, [&](int, int worker) {
      ASSERT_EQ(inside[static_cast<size_t>(worker)].fetch_add(1), 0);
      inside[static_cast<size_t>(worker)].fetch_sub(1);
    });
  }
}

// While a helper is stuck in a chunk, the caller does all the others.
TEST(ThreadPool, OneThreadFinishesWhatAnotherDoesNotClaim) {
  ThreadPool pool(2);
  constexpr int kChunks = 100;
  std::atomic<bool> helper_in{false};
  std::atomic<int> done{0};
  std::set<int> by_caller;
  while (!helper_in) {
    done = 0;
    by_caller.clear();
    pool.Run(kChunks, [&](int chunk, int worker) {
      if (worker == 1) {
        helper_in = true;
        while (done < kChunks - 1) std::this_thread::yield();  // the caller's, all of them
      } else {
        // Gives the helper the time to come in.
        if (chunk == 0) std::this_thread::yield();
        by_caller.insert(chunk);
      }
      ++done;
    });
    EXPECT_EQ(done, kChunks);
  }
  EXPECT_EQ(by_caller.size(), static_cast<size_t>(kChunks - 1));
}

// Helpers that have gone to sleep are woken: without them the meeting below would not take place.
TEST_P(ThreadPoolTest, SleepingHelpersAreWoken) {
  const int threads = GetParam();
  ThreadPool pool(threads);
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> here{0};
    pool.Run(threads, [&](int, int) {
      ++here;
      while (here < threads) std::this_thread::yield();
    });
    // Longer than helpers spin for; were it shorter, less would be tested, nothing would fail.
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(300);
    while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
  }
}

TEST(ThreadPool, CanBeMadeAndDroppedWithoutWork) {
  for (int i = 0; i < 200; ++i) ThreadPool pool(1 + i % 4);
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolTest, ::testing::Values(1, 2, 3, 8));

}  // namespace
}  // namespace sluice::kernels
