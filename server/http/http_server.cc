#include "server/http/http_server.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/log.h"
#include "server/http/connection.h"

namespace sluice::server {
namespace {

namespace net = boost::asio;
using boost::system::error_code;
using tcp = net::ip::tcp;

// Connections over a limit that are told so at once; beyond them the socket is simply closed.
constexpr int kToldOfRefusal = 64;

// Whom a connection counts for: its IPv4 address, or its IPv6 network of 64 bits, of which one
// customer has at least one whole.
std::string PeerKey(const net::ip::address& address) {
  if (address.is_v4()) return address.to_string();
  const auto v6 = address.to_v6();
  if (v6.is_v4_mapped()) return net::ip::make_address_v4(net::ip::v4_mapped, v6).to_string();
  auto bytes = v6.to_bytes();
  std::fill(bytes.begin() + 8, bytes.end(), static_cast<unsigned char>(0));
  return net::ip::address_v6(bytes).to_string() + "/64";
}

HttpResponse Full(int status, std::string message, const char* code) {
  HttpResponse response = HttpError(status, message, code);
  response.headers.emplace_back("Retry-After", "1");
  return response;
}

}  // namespace

struct HttpServer::Impl {
  Impl(const HttpServerOptions& options, const Router* router, ConnectionSet::OnRequest on_request)
      : set(options.limits, options.cors_origins, router, std::move(on_request)),
        work(net::make_work_guard(io)) {}

  error_code Open(const tcp::endpoint& endpoint) {
    error_code error;
    acceptor.open(endpoint.protocol(), error);
    if (!error) acceptor.set_option(net::socket_base::reuse_address(true), error);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(net::socket_base::max_listen_connections, error);
    if (!error) port = acceptor.local_endpoint(error).port();
    return error;
  }

  void Accept() {
    acceptor.async_accept(net::make_strand(io), [this](error_code error, tcp::socket socket) {
      if (error == net::error::operation_aborted || !acceptor.is_open()) return;
      if (error) {
        // Out of descriptors, most likely: let some connections end first.
        SLUICE_LOG(kWarning) << "accept: " << error.message();
        retry.expires_after(std::chrono::milliseconds(100));
        retry.async_wait([this](error_code cancelled) {
          if (!cancelled) Accept();
        });
        return;
      }
      Serve(std::move(socket));
      Accept();
    });
  }

  void Serve(tcp::socket socket) {
    error_code ignored;
    const tcp::endpoint peer = socket.remote_endpoint(ignored);
    if (ignored) return;  // gone already
    Connection::Admission admission = Admit(PeerKey(peer.address()));
    if (admission.refusal && *told > kToldOfRefusal) return;
    socket.set_option(tcp::no_delay(true), ignored);
    socket.non_blocking(true, ignored);
    if (const int bytes = set.limits().send_buffer_bytes; bytes > 0) {
      socket.set_option(net::socket_base::send_buffer_size(bytes), ignored);
    }
    std::make_shared<Connection>(std::move(socket), &set, std::move(admission))->Start();
  }

  Connection::Admission Admit(const std::string& peer) {
    const HttpLimits& limits = set.limits();
    Connection::Admission admission;
    if (set.size() - *told >= limits.connections) {
      admission.refusal = Full(503,
                               "too many connections: " + std::to_string(limits.connections) +
                                   " are open, the most that may be",
                               "connections_full");
    } else {
      admission.place = set.peers().Enter(peer);
      if (admission.place == nullptr) {
        admission.refusal = Full(429,
                                 "too many connections from " + peer + ": " +
                                     std::to_string(limits.peer_connections) +
                                     " are open, the most that one address may have",
                                 "peer_connections_full");
      }
    }
    if (admission.refusal) {
      ++*told;
      admission.refused_place = std::shared_ptr<void>(nullptr, [told = told](void*) { --*told; });
    }
    return admission;
  }

  void CloseAcceptor() {
    std::promise<void> closed;
    net::post(accept_strand, [&] {
      error_code ignored;
      acceptor.close(ignored);
      retry.cancel();
      closed.set_value();
    });
    closed.get_future().wait();
  }

  // Connections that are being told of a refusal; they do not count as open.
  const std::shared_ptr<std::atomic<int>> told = std::make_shared<std::atomic<int>>(0);
  ConnectionSet set;
  net::io_context io;
  net::executor_work_guard<net::io_context::executor_type> work;
  net::strand<net::io_context::executor_type> accept_strand{net::make_strand(io)};
  tcp::acceptor acceptor{accept_strand};
  net::steady_timer retry{accept_strand};
  std::vector<std::thread> threads;
  uint16_t port = 0;
  bool stopped = false;
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpServer::~HttpServer() { Stop(std::chrono::milliseconds(0)); }

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Listen(
    const HttpServerOptions& options, const Router* router, ConnectionSet::OnRequest on_request) {
  auto impl = std::make_unique<Impl>(options, router, std::move(on_request));
  const std::string where = options.host + ":" + std::to_string(options.port);
  error_code error;
  tcp::resolver resolver(impl->io);
  const auto found =
      resolver.resolve(options.host, std::to_string(options.port),
                       tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error || found.empty()) {
    return engine::Unavailable("cannot listen on " + where + ": " + error.message());
  }
  if (const error_code failed = impl->Open(found.begin()->endpoint())) {
    return engine::Unavailable("cannot listen on " + where + ": " + failed.message());
  }
  net::post(impl->accept_strand, [raw = impl.get()] { raw->Accept(); });
  for (int i = 0; i < options.io_threads; ++i) {
    impl->threads.emplace_back([raw = impl.get()] { raw->io.run(); });
  }
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

uint16_t HttpServer::port() const { return impl_->port; }
int HttpServer::connections() const { return impl_->set.size(); }

void HttpServer::StopAccepting() {
  impl_->CloseAcceptor();
  impl_->set.StartClosing();
}

void HttpServer::Stop(std::chrono::milliseconds patience) {
  if (std::exchange(impl_->stopped, true)) return;
  impl_->CloseAcceptor();
  impl_->set.CloseAll(patience);
  impl_->work.reset();
  impl_->io.stop();
  for (std::thread& thread : impl_->threads) thread.join();
}

}  // namespace sluice::server
