#include "server/http/connection.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <utility>

#include "engine/base/log.h"
#include "server/base/request_id.h"
#include "server/http/cors.h"

namespace sluice::server {
namespace {

namespace net = boost::asio;
using boost::system::error_code;
using std::chrono::steady_clock;

constexpr auto kFarAway = steady_clock::time_point::max();

}  // namespace

Connection::Connection(net::ip::tcp::socket socket, ConnectionSet* set, Admission admission)
    : socket_(std::move(socket)),
      wake_(socket_.get_executor()),
      set_(set),
      admission_(std::move(admission)) {}

Connection::~Connection() { set_->Erase(this); }

void Connection::Start() {
  set_->Insert(shared_from_this());
  net::co_spawn(
      socket_.get_executor(), [self = shared_from_this()] { return self->Run(); },
      [self = shared_from_this()](std::exception_ptr failure) {
        error_code ignored;
        self->socket_.close(ignored);
        try {
          if (failure) std::rethrow_exception(failure);
        } catch (const std::exception& error) {
          SLUICE_LOG(kError) << "connection ended: " << error.what();
        }
      });
}

void Connection::CloseWhenIdle() {
  net::post(socket_.get_executor(), [self = shared_from_this()] {
    self->closing_ = true;
    self->wake_.cancel();
  });
}

void Connection::CloseNow() {
  net::post(socket_.get_executor(), [self = shared_from_this()] {
    self->closing_ = true;
    self->closed_ = true;
    error_code ignored;
    self->socket_.close(ignored);
    self->wake_.cancel();
  });
}

void Connection::Notify() {
  net::post(socket_.get_executor(), [self = shared_from_this()] { self->wake_.cancel(); });
}

Connection::Awaitable<void> Connection::Wait(TimePoint until) {
  // Whoever wakes runs on this strand too, thus before this line or after the suspension: no
  // wake-up is lost. The wait's own result does not matter: callers look at the state.
  wake_.expires_at(until);
  co_await wake_.async_wait(net::as_tuple(net::use_awaitable));
}

void Connection::StartRead() {
  if (reading_ || input_ended_) return;
  reading_ = true;
  socket_.async_read_some(net::buffer(read_space_),
                          [self = shared_from_this()](error_code error, size_t bytes) {
                            self->reading_ = false;
                            if (error) {
                              self->input_ended_ = true;
                            } else {
                              self->in_.append(self->read_space_.data(), bytes);
                            }
                            self->wake_.cancel();
                          });
}

void Connection::Consume(size_t bytes) {
  in_used_ += bytes;
  if (in_used_ == in_.size()) {
    in_.clear();
    in_used_ = 0;
  } else if (in_used_ > set_->limits().early_bytes) {
    in_.erase(0, in_used_);
    in_used_ = 0;
  }
}

Connection::Awaitable<void> Connection::Run() {
  if (admission_.refusal) {
    // Named, not a temporary: g++ 12 destroys aggregates in a co_await's arguments twice.
    const HttpRequest unread;
    co_await Refuse(*admission_.refusal, unread, "other");
    co_return;
  }
  for (;;) {
    RequestParser parser(set_->limits());
    const ReadResult result = co_await ReadRequest(parser);
    if (result == ReadResult::kClose) break;
    if (result == ReadResult::kRefuse) {
      const auto match = set_->router().Find(parser.head().method, parser.head().path);
      co_await Refuse(refusal_, parser.head(), match.label);
      co_return;
    }
    HttpRequest request = parser.Release();
    request.body_hold = std::move(body_hold_);
    request.answer_headers = CorsHeaders(set_->cors_origins(), request);
    request.id = SoundRequestId(request.Header("x-request-id"));
    request.arrival = steady_clock::now();
    if (!co_await Answer(std::move(request)) || closed_) break;
  }
  error_code ignored;
  socket_.shutdown(net::ip::tcp::socket::shutdown_both, ignored);
}

Connection::Awaitable<Connection::ReadResult> Connection::ReadRequest(RequestParser& parser) {
  const HttpLimits& limits = set_->limits();
  auto deadline = steady_clock::now() + limits.idle_timeout;
  bool begun = false;
  bool header_seen = false;
  for (;;) {
    if (Pending() > 0) {
      if (!begun) deadline = steady_clock::now() + limits.header_timeout;
      begun = true;
      const size_t used = parser.Put(std::string_view(in_).substr(in_used_));
      Consume(used);
      if (parser.failed()) {
        refusal_ = HttpError(parser.error_status(), parser.error_message());
        co_return ReadResult::kRefuse;
      }
      if (parser.header_done() && !header_seen) {
        header_seen = true;
        deadline = steady_clock::now() + limits.body_timeout;
        if (!co_await OnHeader(parser)) co_return ReadResult::kRefuse;
      }
      if (header_seen && !HoldBody(parser)) co_return ReadResult::kRefuse;
      if (parser.done()) co_return ReadResult::kRequest;
      if (used > 0) continue;
    }
    if (input_ended_ || closed_ || (closing_ && !begun)) co_return ReadResult::kClose;
    if (steady_clock::now() >= deadline) {
      if (!begun) co_return ReadResult::kClose;
      refusal_ = TooLate(header_seen);
      co_return ReadResult::kRefuse;
    }
    StartRead();
    co_await Wait(deadline);
  }
}

// Counts what has come of the body against the budget for bodies.
bool Connection::HoldBody(RequestParser& parser) {
  const size_t bytes = parser.body_bytes();
  if (bytes <= set_->limits().free_bytes) return true;
  if (body_hold_ == nullptr) body_hold_ = std::make_shared<ByteHold>(set_->bodies());
  if (body_hold_->GrowTo(bytes)) return true;
  body_hold_.reset();
  refusal_ = HttpError(503,
                       "the body does not fit beside those that are being read: " +
                           std::to_string(set_->bodies()->used()) + " bytes, at most " +
                           std::to_string(set_->bodies()->bytes_max()) + " may",
                       "bodies_full");
  refusal_.headers.emplace_back("Retry-After", "1");
  return false;
}

HttpResponse Connection::TooLate(bool header_seen) const {
  const auto limit = header_seen ? set_->limits().body_timeout : set_->limits().header_timeout;
  return HttpError(408,
                   std::string(header_seen ? "the body" : "the headers") + " did not come within " +
                       std::to_string(limit.count()) + " ms",
                   header_seen ? "body_timeout" : "header_timeout");
}

// A client that waits for "100 Continue" gets it, or the refusal that its request would get anyway.
Connection::Awaitable<bool> Connection::OnHeader(RequestParser& parser) {
  if (!parser.expects_continue()) co_return true;
  const auto match = set_->router().Find(parser.head().method, parser.head().path);
  if (match.handler == nullptr) {
    refusal_ = match.refusal;
    co_return false;
  }
  if (match.admission != nullptr) {
    if (auto refusal = (*match.admission)(parser.head())) {
      refusal_ = std::move(*refusal);
      co_return false;
    }
  }
  co_return co_await Put("HTTP/1.1 100 Continue\r\n\r\n", nullptr);
}

Connection::Awaitable<bool> Connection::Answer(HttpRequest request) {
  const HttpLimits& limits = set_->limits();
  const auto match = set_->router().Find(request.method, request.path);
  if (closing_) request.keep_alive = false;
  const auto exchange = std::make_shared<Exchange>(
      std::move(request), limits.backlog_bytes,
      [weak = weak_from_this()] {
        if (const auto self = weak.lock()) self->Notify();
      },
      set_->answers());
  if (auto preflight = CorsPreflight(set_->cors_origins(), exchange->request())) {
    exchange->Reply(std::move(*preflight));
  } else if (match.handler != nullptr) {
    (*match.handler)(exchange);
  } else {
    exchange->Reply(match.refusal);
  }
  bool sound = true;
  for (;;) {
    Exchange::Outgoing out = exchange->Take();
    // What is complete is sent even to a client that has closed its sending side.
    if (out.abandoned || closed_ || (input_ended_ && !out.complete)) {
      sound = false;
      break;
    }
    if (!out.bytes.empty() && !co_await Put(out.bytes, exchange.get())) {
      sound = false;
      break;
    }
    if (out.complete) break;
    if (!out.bytes.empty()) continue;
    // With that much pipelined already, a client that leaves is noticed by the next write only.
    if (Pending() < limits.early_bytes) StartRead();
    co_await Wait(kFarAway);
  }
  const int status = exchange->status();
  if (!sound) exchange->Abandon();
  set_->CountRequest(match.label, status == 0 ? 499 : status, exchange->code());
  co_return sound && exchange->KeepAlive();
}

Connection::Awaitable<bool> Connection::Put(std::string_view bytes, const Exchange* exchange) {
  error_code error;
  auto deadline = steady_clock::now() + set_->limits().stall_timeout;
  while (!bytes.empty()) {
    // Nearly always the socket takes it all at once, without a round through the scheduler.
    const size_t n = socket_.write_some(net::const_buffer(bytes.data(), bytes.size()), error);
    bytes.remove_prefix(n);
    if (error && error != net::error::would_block) co_return false;
    if (bytes.empty()) break;
    if (n > 0) deadline = steady_clock::now() + set_->limits().stall_timeout;
    writable_ = false;
    socket_.async_wait(net::ip::tcp::socket::wait_write, [self = shared_from_this()](error_code) {
      self->writable_ = true;
      self->wake_.cancel();
    });
    while (!writable_) {
      const bool stalled = steady_clock::now() >= deadline;
      if (stalled || input_ended_ || closed_ || (exchange != nullptr && exchange->gone())) {
        socket_.close(error);  // also ends the wait for writing
        co_return false;
      }
      co_await Wait(deadline);
    }
  }
  co_return true;
}

// Answers and closes. The client may still be sending: what it sends is dropped for a while, since
// closing at once would reset the connection and take the answer with it (RFC 9112, 9.6).
Connection::Awaitable<void> Connection::Refuse(const HttpResponse& response,
                                               const HttpRequest& head, std::string_view label) {
  HttpRequest request = head;
  request.keep_alive = false;
  request.answer_headers = CorsHeaders(set_->cors_origins(), head);
  request.id = SoundRequestId(head.Header("x-request-id"));
  const int status = response.status;
  Exchange exchange(std::move(request), 0, [] {});
  exchange.Reply(response);
  const std::string bytes = exchange.Take().bytes;
  set_->CountRequest(label, status, response.code);
  if (co_await Put(bytes, nullptr)) co_await Linger();
}

Connection::Awaitable<void> Connection::Linger() {
  const HttpLimits& limits = set_->limits();
  const auto deadline = steady_clock::now() + limits.linger_timeout;
  error_code ignored;
  socket_.shutdown(net::ip::tcp::socket::shutdown_send, ignored);
  size_t dropped = 0;
  while (!input_ended_ && !closed_ && dropped < limits.linger_bytes &&
         steady_clock::now() < deadline) {
    dropped += Pending();
    Consume(Pending());
    StartRead();
    co_await Wait(deadline);
  }
}

}  // namespace sluice::server
