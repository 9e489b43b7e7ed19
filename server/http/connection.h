#pragma once

#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/connection_set.h"
#include "server/http/exchange.h"
#include "server/http/limits.h"
#include "server/http/request_parser.h"
#include "server/http/router.h"

namespace sluice::server {

// One client's connection: requests in, answers out, one at a time and in order (what a client
// pipelines waits in a bounded buffer). Everything here runs on the socket's strand.
//
// There is at most one read under way at any time, also while an answer is being made, so that a
// client that leaves is noticed at once. A client that closes its sending side before it has its
// answer counts as gone: it can't be told from one that left, and generating for nobody costs the
// others.
class Connection final : public ClosableConnection,
                         public std::enable_shared_from_this<Connection> {
 public:
  // What it counts for among the server's connections.
  struct Admission {
    std::unique_ptr<PeerCounts::Place> place;
    std::optional<HttpResponse> refusal;  // over a limit: this answers whatever comes
    std::shared_ptr<void> refused_place;  // with a refusal: given back with the connection
  };
  // `set` outlives the connection.
  Connection(boost::asio::ip::tcp::socket socket, ConnectionSet* set, Admission admission);
  ~Connection() override;

  void Start();
  // From any thread: ends it when idle, else after the answer under way.
  void CloseWhenIdle() override;
  // From any thread: ends it now.
  void CloseNow() override;
  // From any thread: the exchange has something new.
  void Notify();

 private:
  template <class T>
  using Awaitable = boost::asio::awaitable<T>;
  using TimePoint = std::chrono::steady_clock::time_point;

  enum class ReadResult { kRequest, kRefuse, kClose };

  Awaitable<void> Run();
  Awaitable<ReadResult> ReadRequest(RequestParser& parser);
  Awaitable<bool> OnHeader(RequestParser& parser);
  bool HoldBody(RequestParser& parser);
  HttpResponse TooLate(bool header_seen) const;
  Awaitable<bool> Answer(HttpRequest request);
  Awaitable<bool> Put(std::string_view bytes, const Exchange* exchange);
  Awaitable<void> Refuse(const HttpResponse& response, const HttpRequest& head,
                         std::string_view label);
  Awaitable<void> Linger();
  // Waits until something happens on this connection or `until` has come.
  Awaitable<void> Wait(TimePoint until);

  void StartRead();
  size_t Pending() const { return in_.size() - in_used_; }
  void Consume(size_t bytes);

  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer wake_;
  ConnectionSet* const set_;
  const Admission admission_;
  std::array<char, 16 << 10> read_space_;
  std::string in_;  // received; the first in_used_ bytes are taken
  size_t in_used_ = 0;
  bool reading_ = false;
  bool input_ended_ = false;  // end of stream or a read error
  bool writable_ = false;
  bool closing_ = false;                 // CloseWhenIdle
  bool closed_ = false;                  // CloseNow
  std::shared_ptr<ByteHold> body_hold_;  // of the request being read
  HttpResponse refusal_;                 // when ReadRequest said kRefuse
};

}  // namespace sluice::server
