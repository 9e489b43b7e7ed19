#include "kernels/cpu/page_populator.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>

namespace sluice::kernels {
namespace {

// So little that Remove() and the end of the process never wait long for a piece.
constexpr size_t kPiece = size_t{512} << 10;
// Rests are so many times as long as the piece before them. One that took long did so for want of a
// processor, not of rest.
constexpr int kRestsIdle = 1, kRestsBusy = 9;
constexpr std::chrono::milliseconds kRestMax{500};

#ifndef MADV_POPULATE_WRITE
constexpr int kPopulateWrite = 23;
#else
constexpr int kPopulateWrite = MADV_POPULATE_WRITE;
#endif

}  // namespace

PagePopulator::~PagePopulator() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void PagePopulator::Add(std::byte* data, size_t bytes) {
  const std::lock_guard lock(mutex_);
  ranges_.push_back({data, bytes, 0});
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  changed_.notify_all();
}

void PagePopulator::Remove(const std::byte* data) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !working_ || ranges_.front().data != data; });
  std::erase_if(ranges_, [&](const Range& range) { return range.data == data; });
}

void PagePopulator::Run() {
  std::unique_lock lock(mutex_);
  uint32_t work_seen = work_count_();
  while (true) {
    changed_.wait(lock, [&] { return stop_ || !ranges_.empty(); });
    if (stop_) return;
    const Range range = ranges_.front();
    const size_t piece = std::min(kPiece, range.bytes - range.done);
    working_ = true;
    lock.unlock();
    const auto begin = std::chrono::steady_clock::now();
    const bool populated = madvise(range.data + range.done, piece, kPopulateWrite) == 0;
    const auto busy = std::chrono::steady_clock::now() - begin;
    lock.lock();
    working_ = false;
    // Without memory, or without the call, first use has to do.
    if (!populated || range.done + piece == range.bytes) {
      ranges_.pop_front();
    } else {
      ranges_.front().done += piece;
    }
    changed_.notify_all();
    const uint32_t work = work_count_();
    const int rests = work == work_seen ? kRestsIdle : kRestsBusy;
    work_seen = work;
    changed_.wait_for(lock, std::min<std::chrono::steady_clock::duration>(rests * busy, kRestMax),
                      [this] { return stop_; });
  }
}

}  // namespace sluice::kernels
