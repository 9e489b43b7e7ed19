#include "server/base/frontend_pool.h"

#include <sys/resource.h>
#include <unistd.h>

#include <exception>
#include <utility>

#include "engine/base/log.h"

namespace sluice::server {
namespace {

// Libraries may throw (std::bad_alloc above all); a thread's entry is where that ends.
void RunTask(const std::function<void()>& task) {
  try {
    task();
  } catch (const std::exception& error) {
    SLUICE_LOG(kError) << "frontend task failed: " << error.what();
  }
}

// What callers can have done for them before they are served takes no time from the answers under
// way while processors are scarce. Linux has a nice value for each thread.
constexpr int kNice = 5;

}  // namespace

FrontendPool::FrontendPool(int threads, int queue_max) : queue_max_(queue_max) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
}

FrontendPool::~FrontendPool() { Wait(); }

void FrontendPool::Wait() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  std::lock_guard lock(join_mutex_);
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

bool FrontendPool::TryPost(std::function<void()> task) {
  {
    std::lock_guard lock(mutex_);
    if (counted_ >= queue_max_) return false;
    ++counted_;
    tasks_.push_back({std::move(task), true});
  }
  changed_.notify_one();
  return true;
}

void FrontendPool::Post(std::function<void()> task) {
  {
    std::lock_guard lock(mutex_);
    tasks_.push_back({std::move(task), false});
  }
  changed_.notify_one();
}

void FrontendPool::Work() {
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNice);  // only a wish
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return !tasks_.empty() || ending_; });
    if (tasks_.empty()) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    RunTask(task.run);
    task.run = nullptr;  // what it holds ends outside the lock
    lock.lock();
    if (task.counted) --counted_;
  }
}

}  // namespace sluice::server
