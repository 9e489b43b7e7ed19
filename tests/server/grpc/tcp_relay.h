#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>

namespace sluice::testing {

// A TCP relay for one connection to a port of this machine, which can vanish as networks do.
class TcpRelay {
 public:
  explicit TcpRelay(uint16_t target);
  ~TcpRelay();
  TcpRelay(const TcpRelay&) = delete;
  TcpRelay& operator=(const TcpRelay&) = delete;

  uint16_t port() const { return port_; }
  void Cut();     // resets both sides
  void Freeze();  // passes nothing on any more, and closes nothing

 private:
  void Run(uint16_t target);
  bool Pass(int from, int to);

  int listener_ = -1;
  int wake_[2] = {-1, -1};
  uint16_t port_ = 0;
  std::atomic<bool> frozen_{false};
  std::atomic<bool> cut_{false};
  std::thread thread_;
};

}  // namespace sluice::testing
