#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace sluice::kernels {

// Has the operating system back large memory with real pages in the background, so that neither the
// start waits for gigabytes of fresh pages (on a virtual machine whose host has to find them first,
// several seconds each) nor a step meets them one fault at a time for long. What is used before its
// turn is backed by its own first use. The contents are left as they are.
//
// One thread, which starts with the first range and takes half of a processor's time at most while
// nothing is computed, else a tenth: on a machine with few processors a step waits for the thread
// that shares its one. It has no lower priority than others: it holds the kernel's lock on the
// address space while it works, and whoever waits for that lock would wait for a processor to be
// idle. On a kernel without MADV_POPULATE_WRITE (before 5.14) nothing happens.
//
// Threads: any.
class PagePopulator {
 public:
  // `work_count` changes while the process computes.
  explicit PagePopulator(std::function<uint32_t()> work_count)
      : work_count_(std::move(work_count)) {}
  ~PagePopulator();
  PagePopulator(const PagePopulator&) = delete;
  PagePopulator& operator=(const PagePopulator&) = delete;

  // [data, data + bytes), of whole pages; ranges are taken in the order in which they come.
  void Add(std::byte* data, size_t bytes);
  // Forgets the range that begins at `data`: after this call it may be unmapped.
  void Remove(const std::byte* data);

 private:
  struct Range {
    std::byte* data;
    size_t bytes;
    size_t done;
  };
  void Run();

  const std::function<uint32_t()> work_count_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Range> ranges_;
  bool working_ = false;  // on a piece of the first range, without the lock
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace sluice::kernels
