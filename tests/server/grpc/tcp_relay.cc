#include "tests/server/grpc/tcp_relay.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

namespace sluice::testing {
namespace {

sockaddr_in Local(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

void Reset(int fd) {
  const linger hard{1, 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  close(fd);
}

}  // namespace

TcpRelay::TcpRelay(uint16_t target) {
  listener_ = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = Local(0);
  EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(listen(listener_, 1), 0);
  socklen_t size = sizeof address;
  getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
  EXPECT_EQ(pipe(wake_), 0);
  thread_ = std::thread([this, target] { Run(target); });
}

TcpRelay::~TcpRelay() {
  Cut();
  thread_.join();
  close(wake_[0]);
  close(wake_[1]);
}

void TcpRelay::Cut() {
  cut_ = true;
  EXPECT_EQ(write(wake_[1], "x", 1), 1);
}

void TcpRelay::Freeze() {
  frozen_ = true;
  EXPECT_EQ(write(wake_[1], "x", 1), 1);
}

bool TcpRelay::Pass(int from, int to) {
  char buffer[16384];
  const ssize_t count = recv(from, buffer, sizeof buffer, 0);
  if (count <= 0) return false;
  for (ssize_t sent = 0; sent < count;) {
    const ssize_t n = send(to, buffer + sent, static_cast<size_t>(count - sent), MSG_NOSIGNAL);
    if (n <= 0) return false;
    sent += n;
  }
  return true;
}

void TcpRelay::Run(uint16_t target) {
  pollfd first[2] = {{listener_, POLLIN, 0}, {wake_[0], POLLIN, 0}};
  poll(first, 2, -1);
  if (cut_) {
    close(listener_);
    return;
  }
  const int client = accept(listener_, nullptr, nullptr);
  close(listener_);
  const int server = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = Local(target);
  bool open = connect(server, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  while (open && !cut_) {
    // A negative descriptor is left out.
    pollfd all[3] = {{frozen_ ? -1 : client, POLLIN, 0},
                     {frozen_ ? -1 : server, POLLIN, 0},
                     {wake_[0], POLLIN, 0}};
    poll(all, 3, -1);
    char byte;
    if (all[2].revents != 0 && read(wake_[0], &byte, 1) != 1) break;
    if (cut_ || frozen_) continue;
    if (all[0].revents != 0) open = Pass(client, server);
    if (open && all[1].revents != 0) open = Pass(server, client);
  }
  Reset(client);
  Reset(server);
}

}  // namespace sluice::testing
