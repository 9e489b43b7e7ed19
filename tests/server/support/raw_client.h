#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::testing {

struct RawResponse {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string head;
  std::string body;  // unchunked
};

// One TCP connection, byte by byte: what clients send that no client library would. Reads give up
// after ten seconds.
class RawClient {
 public:
  // `receive_bytes`: size of the socket's receive buffer; 0: the system's.
  explicit RawClient(uint16_t port, int receive_bytes = 0);
  ~RawClient();
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool Send(std::string_view bytes);
  void SendGet(std::string_view path) { Send(Get(path)); }
  void SendPost(std::string_view path, std::string_view body) { Send(Post(path, body)); }

  // One response; nothing when the connection ends or time is over first.
  std::optional<RawResponse> Receive(bool head_only = false);
  // Only the head, leaving the body to ReadEvent.
  std::optional<RawResponse> ReceiveHead();
  // The next server-sent event's data; nothing at the body's end.
  std::optional<std::string> ReadEvent();
  std::vector<std::string> ReadEvents();

  // At most that many bytes of what has come, if any has: never waits.
  void ReadSome(size_t bytes_max);

  bool ClosedByServer();  // reads until the end: true when it comes
  void Reset();           // ends with a reset (RST)
  void Close();
  void HalfClose();

  static std::string Get(std::string_view path);
  static std::string Post(std::string_view path, std::string_view body);

 private:
  bool Fill();
  std::optional<std::string> Line();
  std::optional<std::string> Bytes(size_t count);
  std::optional<std::string> Chunk();

  int fd_ = -1;
  std::string in_;
  std::string events_;
  bool events_ended_ = false;
};

// A request on a connection of its own.
RawResponse Fetch(uint16_t port, std::string_view request);

}  // namespace sluice::testing
