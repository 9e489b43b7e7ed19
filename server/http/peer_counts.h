#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

namespace sluice::server {

// How many connections each peer has. Thread-safe.
class PeerCounts : public std::enable_shared_from_this<PeerCounts> {
 public:
  explicit PeerCounts(int each_max) : each_max_(each_max) {}

  // One connection's place, free again with it.
  class Place {
   public:
    Place(std::shared_ptr<PeerCounts> counts, std::string peer)
        : counts_(std::move(counts)), peer_(std::move(peer)) {}
    ~Place() { counts_->Leave(peer_); }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

   private:
    const std::shared_ptr<PeerCounts> counts_;
    const std::string peer_;
  };

  // Null when the peer has all its places already.
  std::unique_ptr<Place> Enter(const std::string& peer) {
    {
      std::lock_guard lock(mutex_);
      int& count = counts_[peer];
      if (count >= each_max_) return nullptr;
      ++count;
    }
    return std::make_unique<Place>(shared_from_this(), peer);
  }

 private:
  void Leave(const std::string& peer) {
    std::lock_guard lock(mutex_);
    const auto found = counts_.find(peer);
    if (--found->second == 0) counts_.erase(found);
  }

  const int each_max_;
  std::mutex mutex_;
  std::unordered_map<std::string, int> counts_;
};

}  // namespace sluice::server
