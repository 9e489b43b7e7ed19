#include "kernels/cpu/thread_pool.h"

#include <algorithm>
#include <chrono>

#include "kernels/check.h"

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace sluice::kernels {
namespace {

using Clock = std::chrono::steady_clock;

// A sleeping helper costs its waker a system call and wakes up some ten microseconds later at best;
// spinning for about as long costs at most twice the better of the two.
constexpr std::chrono::microseconds kSpin{20};

void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

// Whether `ready` became true within the time allowed for spinning.
template <typename Ready>
bool SpinUntil(Ready&& ready) {
  for (int i = 0; i < 32; ++i) {
    if (ready()) return true;
    Pause();
  }
  const Clock::time_point end = Clock::now() + kSpin;
  do {
    for (int i = 0; i < 16; ++i) {
      if (ready()) return true;
      Pause();
    }
  } while (Clock::now() < end);
  return false;
}

constexpr uint64_t Pack(uint32_t epoch, uint32_t chunks) {
  return uint64_t{epoch} << 32 | uint64_t{chunks} << 16;
}
constexpr uint32_t EpochOf(uint64_t state) { return static_cast<uint32_t>(state >> 32); }
constexpr uint32_t ChunksOf(uint64_t state) { return (state >> 16) & 0xFFFF; }
constexpr uint32_t NextOf(uint64_t state) { return state & 0xFFFF; }

}  // namespace

ThreadPool::ThreadPool(int threads) {
  SLUICE_CHECK(threads >= 1 && threads <= kThreadsMax) << threads << " threads";
  for (int worker = 1; worker < threads; ++worker) {
    helpers_.emplace_back([this, worker] { HelperMain(worker); });
  }
}

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_seq_cst);
  epoch_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void ThreadPool::RunShared(int chunks, Function function, const void* context) {
  SLUICE_CHECK_LE(chunks, kChunksMax);
  // All chunks of the work before are done, so nobody reads these now.
  function_.store(function, std::memory_order_relaxed);
  context_.store(context, std::memory_order_relaxed);
  done_.store(0, std::memory_order_relaxed);
  const uint32_t epoch = epoch_.load(std::memory_order_relaxed) + 1;
  state_.store(Pack(epoch, static_cast<uint32_t>(chunks)), std::memory_order_release);
  // Either the store below is seen by a helper about to sleep, or that helper is seen here.
  epoch_.store(epoch, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) epoch_.notify_all();
  const int ran = ClaimAndRun(epoch, 0);
  if (ran < chunks) {
    done_.fetch_add(static_cast<uint32_t>(ran), std::memory_order_relaxed);
    AwaitDone(static_cast<uint32_t>(chunks));
  }
}

int ThreadPool::ClaimAndRun(uint32_t epoch, int worker) {
  int ran = 0;
  uint64_t state = state_.load(std::memory_order_acquire);
  for (;;) {
    if (EpochOf(state) != epoch || NextOf(state) >= ChunksOf(state)) return ran;
    // While a chunk of this epoch is unclaimed, the caller cannot have moved on: if the claim below
    // succeeds, these two belong to it.
    const Function function = function_.load(std::memory_order_relaxed);
    const void* context = context_.load(std::memory_order_relaxed);
    if (!state_.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel,
                                      std::memory_order_acquire)) {
      continue;
    }
    function(context, static_cast<int>(NextOf(state)), worker);
    ++ran;
    state = state_.load(std::memory_order_acquire);
  }
}

void ThreadPool::AwaitDone(uint32_t chunks) {
  const auto done = [&] { return done_.load(std::memory_order_acquire) == chunks; };
  if (SpinUntil(done)) return;
  for (;;) {
    const uint32_t seen = done_.load(std::memory_order_acquire);
    if (seen == chunks) return;
    done_.wait(seen, std::memory_order_acquire);
  }
}

// Returns the epoch after `seen`, once there is one.
uint32_t ThreadPool::AwaitWork(uint32_t seen) {
  const auto changed = [&] { return epoch_.load(std::memory_order_acquire) != seen; };
  if (!SpinUntil(changed)) {
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    epoch_.wait(seen, std::memory_order_seq_cst);
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
  }
  return epoch_.load(std::memory_order_acquire);
}

void ThreadPool::HelperMain(int worker) {
  uint32_t seen = 0;
  for (;;) {
    seen = AwaitWork(seen);
    if (stop_.load(std::memory_order_relaxed)) return;
    const int ran = ClaimAndRun(seen, worker);
    if (ran == 0) continue;
    // The caller cannot start new work before this addition, so both belong to the same.
    const uint32_t chunks = ChunksOf(state_.load(std::memory_order_relaxed));
    const uint32_t add = static_cast<uint32_t>(ran);
    if (done_.fetch_add(add, std::memory_order_acq_rel) + add == chunks) done_.notify_one();
  }
}

}  // namespace sluice::kernels
