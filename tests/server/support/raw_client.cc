#include "tests/server/support/raw_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <utility>

namespace sluice::testing {

RawClient::RawClient(uint16_t port, int receive_bytes) {
  fd_ = socket(AF_INET, SOCK_STREAM, 0);
  if (receive_bytes > 0) {
    setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
  }
  const timeval patience{10, 0};
  setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) Close();
}

RawClient::~RawClient() { Close(); }

void RawClient::Close() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

void RawClient::HalfClose() { shutdown(fd_, SHUT_WR); }

void RawClient::Reset() {
  const linger now{1, 0};
  setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  Close();
}

bool RawClient::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

bool RawClient::Fill() {
  char space[16384];
  const ssize_t n = recv(fd_, space, sizeof space, 0);
  if (n <= 0) return false;
  in_.append(space, static_cast<size_t>(n));
  return true;
}

std::optional<std::string> RawClient::Line() {
  size_t end = 0;
  while ((end = in_.find("\r\n")) == std::string::npos) {
    if (!Fill()) return std::nullopt;
  }
  std::string line = in_.substr(0, end);
  in_.erase(0, end + 2);
  return line;
}

std::optional<std::string> RawClient::Bytes(size_t count) {
  while (in_.size() < count) {
    if (!Fill()) return std::nullopt;
  }
  std::string bytes = in_.substr(0, count);
  in_.erase(0, count);
  return bytes;
}

std::optional<std::string> RawClient::Chunk() {
  const auto size = Line();
  if (!size) return std::nullopt;
  auto bytes = Bytes(std::strtoul(size->c_str(), nullptr, 16) + 2);
  if (!bytes) return std::nullopt;
  bytes->resize(bytes->size() - 2);
  return bytes;
}

std::optional<RawResponse> RawClient::ReceiveHead() {
  events_.clear();
  events_ended_ = false;
  RawResponse response;
  const auto first = Line();
  if (!first || first->size() < 12) return std::nullopt;
  response.head = *first + "\r\n";
  response.status = std::atoi(first->c_str() + 9);
  for (;;) {
    const auto line = Line();
    if (!line) return std::nullopt;
    if (line->empty()) return response;
    response.head += *line + "\r\n";
    const size_t colon = line->find(": ");
    std::string name = line->substr(0, colon);
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    response.headers[name] = colon == std::string::npos ? "" : line->substr(colon + 2);
  }
}

std::optional<RawResponse> RawClient::Receive(bool head_only) {
  auto response = ReceiveHead();
  if (!response || head_only || response->status == 100) return response;
  if (response->headers.count("transfer-encoding") > 0) {
    for (;;) {
      const auto chunk = Chunk();
      if (!chunk) return std::nullopt;
      if (chunk->empty()) return response;
      response->body += *chunk;
    }
  }
  const auto length = response->headers.find("content-length");
  if (length == response->headers.end()) {
    while (Fill()) {
    }
    response->body = std::exchange(in_, {});
    return response;
  }
  const auto body = Bytes(std::strtoul(length->second.c_str(), nullptr, 10));
  if (!body) return std::nullopt;
  response->body = *body;
  return response;
}

std::optional<std::string> RawClient::ReadEvent() {
  size_t end = 0;
  while ((end = events_.find("\n\n")) == std::string::npos) {
    if (events_ended_) return std::nullopt;
    const auto chunk = Chunk();
    if (!chunk || chunk->empty()) {
      events_ended_ = true;
      continue;
    }
    events_ += *chunk;
  }
  std::string event = events_.substr(0, end);
  events_.erase(0, end + 2);
  return event.starts_with("data: ") ? event.substr(6) : "not an event: " + event;
}

std::vector<std::string> RawClient::ReadEvents() {
  std::vector<std::string> events;
  while (auto event = ReadEvent()) events.push_back(*event);
  return events;
}

void RawClient::ReadSome(size_t bytes_max) {
  std::string space(bytes_max, '\0');
  (void)recv(fd_, space.data(), space.size(), MSG_DONTWAIT);
}

bool RawClient::ClosedByServer() {
  for (;;) {
    char space[4096];
    const ssize_t n = recv(fd_, space, sizeof space, 0);
    if (n == 0) return true;
    if (n < 0) return errno == ECONNRESET;
  }
}

std::string RawClient::Get(std::string_view path) {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: test\r\n\r\n";
}

std::string RawClient::Post(std::string_view path, std::string_view body) {
  return "POST " + std::string(path) +
         " HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

RawResponse Fetch(uint16_t port, std::string_view request) {
  RawClient client(port);
  client.Send(request);
  return client.Receive().value_or(RawResponse());
}

}  // namespace sluice::testing
