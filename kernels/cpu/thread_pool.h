#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace sluice::kernels {

// Runs the chunks of one piece of work at a time on the calling thread and on helpers.
//
// Chunks are claimed one by one from a counter, so whoever is running takes what is left: a helper
// that the system has descheduled delays at most the one chunk it holds. Helpers that find nothing
// to do spin for some microseconds, the usual gap between two operations, then sleep in the kernel;
// a machine with other work to do is not kept busy by waiting.
//
// Run is called from one thread at a time and is not re-entrant.
class ThreadPool {
 public:
  // `threads` counts the calling thread: with 1 there are no helpers. At most kThreadsMax.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  static constexpr int kThreadsMax = 256;
  static constexpr int kChunksMax = 0xFFFF;

  int threads() const { return static_cast<int>(helpers_.size()) + 1; }
  // Changes with each Run. Any thread.
  uint32_t works() const { return works_.load(std::memory_order_relaxed); }

  // Calls body(chunk, worker) once for each chunk in [0, chunks), chunks <= kChunksMax, in any
  // order, and returns when all are done. `worker` is in [0, threads()) and tells threads that run
  // at the same time apart: an index for scratch memory.
  template <typename Body>
  void Run(int chunks, Body&& body) {
    works_.store(works() + 1, std::memory_order_relaxed);  // one caller at a time
    if (helpers_.empty() || chunks <= 1) {
      for (int chunk = 0; chunk < chunks; ++chunk) body(chunk, 0);
      return;
    }
    using Plain = std::remove_reference_t<Body>;
    RunShared(
        chunks,
        [](const void* context, int chunk, int worker) {
          (*static_cast<Plain*>(const_cast<void*>(context)))(chunk, worker);
        },
        std::addressof(body));
  }

 private:
  using Function = void (*)(const void* context, int chunk, int worker);

  void RunShared(int chunks, Function function, const void* context);
  void HelperMain(int worker);
  uint32_t AwaitWork(uint32_t seen);
  int ClaimAndRun(uint32_t epoch, int worker);
  void AwaitDone(uint32_t chunks);

  // The work at hand: epoch (32 bits), number of chunks (16), next chunk to claim (16). A claim is
  // a compare-and-swap of the whole, so that a helper which woke up late cannot claim from, or see
  // the function of, any work but the one whose epoch it has read.
  alignas(64) std::atomic<uint64_t> state_{0};
  std::atomic<Function> function_{nullptr};
  std::atomic<const void*> context_{nullptr};
  alignas(64) std::atomic<uint32_t> done_{0};   // chunks finished
  alignas(64) std::atomic<uint32_t> epoch_{0};  // what helpers sleep on
  std::atomic<uint32_t> sleepers_{0};
  std::atomic<bool> stop_{false};
  alignas(64) std::atomic<uint32_t> works_{0};
  std::vector<std::thread> helpers_;
};

}  // namespace sluice::kernels
