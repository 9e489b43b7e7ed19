#include "kernels/cpu/page_populator.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>

namespace sluice::kernels {
namespace {

// So little that Remove() and the end of the process never wait long for a piece, although it is
// worked on at the lowest priority: on a machine that has other things to do, it may get no more
// than a few milliseconds a second.
constexpr size_t kPiece = size_t{128} << 10;

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
    Hurry();
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
  if (working_ && ranges_.front().data == data) Hurry();
  changed_.wait(lock, [&] { return !working_ || ranges_.front().data != data; });
  std::erase_if(ranges_, [&](const Range& range) { return range.data == data; });
}

void PagePopulator::Hurry() {
  const sched_param none{};
  if (thread_.joinable()) pthread_setschedparam(thread_.native_handle(), SCHED_OTHER, &none);
}

void PagePopulator::Run() {
  const sched_param none{};
  sched_setscheduler(0, SCHED_IDLE, &none);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || !ranges_.empty(); });
    if (stop_) return;
    const Range range = ranges_.front();
    const size_t piece = std::min(kPiece, range.bytes - range.done);
    working_ = true;
    lock.unlock();
    const bool populated = madvise(range.data + range.done, piece, kPopulateWrite) == 0;
    lock.lock();
    working_ = false;
    // Without memory, or without the call, first use has to do.
    if (!populated || range.done + piece == range.bytes) {
      ranges_.pop_front();
    } else {
      ranges_.front().done += piece;
    }
    changed_.notify_all();
  }
}

}  // namespace sluice::kernels
