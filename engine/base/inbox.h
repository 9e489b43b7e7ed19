#pragma once

#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

namespace sluice::engine {

// Messages from any number of threads to one reader, which takes all of them at once: the lock is
// held for a push or a swap, never for work. Pushing never waits. The inbox itself has no limit:
// whoever hands out places in the system bounds the messages about them.
template <typename T>
class Inbox {
 public:
  // False when the inbox is closed.
  bool Push(T item) {
    std::lock_guard lock(mu_);
    if (closed_) return false;
    items_.push_back(std::move(item));
    if (items_.size() == 1) ready_.notify_one();
    return true;
  }

  // Takes all items into `out`, whose old content is dropped (its memory is used again). With
  // `wait`, blocks until there is an item or the inbox is closed. False when it is closed; what had
  // been pushed before is in `out` also then.
  bool Drain(std::vector<T>* out, bool wait) {
    out->clear();
    std::unique_lock lock(mu_);
    if (wait) ready_.wait(lock, [this] { return closed_ || !items_.empty(); });
    items_.swap(*out);
    return !closed_;
  }

  // Later pushes fail; a waiting reader wakes.
  void Close() {
    std::lock_guard lock(mu_);
    closed_ = true;
    ready_.notify_all();
  }

 private:
  std::mutex mu_;
  std::condition_variable ready_;
  std::vector<T> items_;
  bool closed_ = false;
};

}  // namespace sluice::engine
