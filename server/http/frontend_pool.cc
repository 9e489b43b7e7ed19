#include "server/http/frontend_pool.h"

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <exception>
#include <string>
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

}  // namespace

struct FrontendPool::Impl {
  explicit Impl(int threads) : pool(static_cast<size_t>(threads)) {}
  boost::asio::thread_pool pool;
};

FrontendPool::FrontendPool(int threads, int queue_max)
    : queue_max_(queue_max), impl_(std::make_unique<Impl>(threads)) {}

FrontendPool::~FrontendPool() { Wait(); }

void FrontendPool::Wait() { impl_->pool.join(); }

bool FrontendPool::TryPost(std::function<void()> task) {
  if (queued_.fetch_add(1) >= queue_max_) {
    queued_.fetch_sub(1);
    return false;
  }
  boost::asio::post(impl_->pool, [this, task = std::move(task)] {
    RunTask(task);
    queued_.fetch_sub(1);
  });
  return true;
}

void FrontendPool::Post(std::function<void()> task) {
  boost::asio::post(impl_->pool, [task = std::move(task)] { RunTask(task); });
}

}  // namespace sluice::server
