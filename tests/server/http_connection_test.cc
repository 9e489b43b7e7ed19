// HTTP/1.1 on real sockets: framing, keep-alive, refusals, limits and time limits.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "server/http/http_server.h"
#include "tests/server/support/raw_client.h"
#include "tests/server/support/test_server.h"

namespace sluice::server {
namespace {

using std::chrono::milliseconds;
using testing::Eventually;
using testing::Fetch;
using testing::RawClient;
using testing::RawResponse;

// /echo answers with the body, /never does not answer, /stream sends events until told to stop.
class HttpConnectionTest : public ::testing::Test {
 protected:
  void Start(HttpLimits limits = {}) {
    router_.Add("GET", "/hello", [](std::shared_ptr<Exchange> exchange) {
      HttpResponse response;
      response.body = "hello";
      exchange->Reply(response);
    });
    router_.Add(
        "POST", "/echo",
        [](std::shared_ptr<Exchange> exchange) {
          HttpResponse response;
          response.body = exchange->request().body;
          exchange->Reply(response);
        },
        [](const HttpRequest& head) -> std::optional<HttpResponse> {
          if (head.Header("x-key") != "bad") return std::nullopt;
          return HttpError(503, "not now");
        });
    router_.Add("GET", "/never", [this](std::shared_ptr<Exchange> exchange) {
      exchange->OnGone([this] { ++gone_; });
      std::lock_guard lock(mutex_);
      kept_.push_back(exchange);
    });
    HttpServerOptions options;
    options.port = 0;
    options.io_threads = 2;
    options.limits = limits;
    auto server = HttpServer::Listen(options, &router_,
                                     [this](std::string_view, int status, std::string_view) {
                                       std::lock_guard lock(mutex_);
                                       statuses_.push_back(status);
                                     });
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = std::move(*server);
  }
  uint16_t port() const { return server_->port(); }

  Router router_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Exchange>> kept_;
  std::vector<int> statuses_;
  std::atomic<int> gone_{0};
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpConnectionTest, KeepsTheConnection) {
  Start();
  RawClient client(port());
  for (int i = 0; i < 3; ++i) {
    client.SendGet("/hello");
    const auto response = client.Receive();
    ASSERT_TRUE(response);
    EXPECT_EQ(response->status, 200);
    EXPECT_EQ(response->body, "hello");
    EXPECT_FALSE(response->headers.at("x-request-id").empty());
    EXPECT_FALSE(response->headers.at("date").empty());
  }
  EXPECT_EQ(server_->connections(), 1);
}

TEST_F(HttpConnectionTest, AnswersPipelinedRequestsInOrder) {
  Start();
  RawClient client(port());
  std::string all;
  for (int i = 0; i < 50; ++i) all += RawClient::Post("/echo", "body " + std::to_string(i));
  client.Send(all);
  for (int i = 0; i < 50; ++i) {
    const auto response = client.Receive();
    ASSERT_TRUE(response) << i;
    EXPECT_EQ(response->body, "body " + std::to_string(i));
  }
}

TEST_F(HttpConnectionTest, ReadsRequestsByteByByte) {
  Start();
  RawClient client(port());
  for (const char c : RawClient::Post("/echo", "abc")) client.Send(std::string_view(&c, 1));
  EXPECT_EQ(client.Receive()->body, "abc");
}

TEST_F(HttpConnectionTest, HeadAndOldHttp) {
  Start();
  RawClient client(port());
  client.Send("HEAD /hello HTTP/1.1\r\nHost: h\r\n\r\n");
  const auto head = client.Receive(true);
  ASSERT_TRUE(head);
  EXPECT_EQ(head->headers.at("content-length"), "5");
  client.SendGet("/hello");
  EXPECT_EQ(client.Receive()->body, "hello");

  RawClient old(port());
  old.Send("GET /hello HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.Receive()->body, "hello");
  EXPECT_TRUE(old.ClosedByServer());
}

TEST_F(HttpConnectionTest, EchoesSoundRequestIds) {
  Start();
  const auto id_of = [&](const std::string& id) {
    return Fetch(port(), "GET /hello HTTP/1.1\r\nHost: h\r\nX-Request-Id: " + id + "\r\n\r\n")
        .headers.at("x-request-id");
  };
  EXPECT_EQ(id_of("abc-1.2_3:4"), "abc-1.2_3:4");
  EXPECT_EQ(id_of("has space").size(), 32u);
  EXPECT_EQ(id_of(std::string(200, 'a')).size(), 32u);
}

TEST_F(HttpConnectionTest, RefusedBodiesNeverBecomeRequests) {
  Start();
  RawClient client(port());
  client.Send(RawClient::Post("/nowhere", "GET /hello HTTP/1.1\r\nHost: h\r\n\r\n"));
  EXPECT_EQ(client.Receive()->status, 404);
  client.Send("DELETE /hello HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nxyz");
  const auto wrong = client.Receive();
  EXPECT_EQ(wrong->status, 405);
  EXPECT_EQ(wrong->headers.at("allow"), "GET, HEAD");
  client.SendGet("/hello");
  EXPECT_EQ(client.Receive()->body, "hello");
}

TEST_F(HttpConnectionTest, LargeBodiesGet413WithoutAReset) {
  HttpLimits limits;
  limits.body_bytes = 100'000;
  Start(limits);
  const std::string body(2'000'000, 'x');
  RawClient plain(port());
  plain.SendPost("/echo", body);
  const auto refused = plain.Receive();
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 413);
  EXPECT_NE(refused->body.find("100000"), std::string::npos);
  EXPECT_EQ(refused->headers.at("connection"), "close");

  RawClient chunked(port());
  chunked.Send("POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 20; ++i) chunked.Send("2710\r\n" + std::string(10'000, 'x') + "\r\n");
  EXPECT_EQ(chunked.Receive()->status, 413);
}

TEST_F(HttpConnectionTest, ChunkedBodiesAreTakenWhole) {
  Start();
  std::string request = "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const char c : std::string("one byte each")) {
    request += "1;name=value\r\n" + std::string(1, c) + "\r\n";
  }
  request += "0\r\nTrailer: x\r\n\r\n";
  RawClient client(port());
  client.Send(request + RawClient::Get("/hello"));
  EXPECT_EQ(client.Receive()->body, "one byte each");
  EXPECT_EQ(client.Receive()->body, "hello");
}

TEST_F(HttpConnectionTest, SmugglingShapesCloseTheConnection) {
  Start();
  RawClient client(port());
  client.Send(
      "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n"
      "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" +
      RawClient::Get("/hello"));
  EXPECT_EQ(client.Receive()->status, 400);
  EXPECT_TRUE(client.ClosedByServer());
}

TEST_F(HttpConnectionTest, ContinueIsSentOnlyForWhatIsWelcome) {
  HttpLimits limits;
  limits.body_bytes = 1000;
  Start(limits);
  const auto expect = [&](const std::string& path, size_t length, const std::string& more) {
    auto client = std::make_unique<RawClient>(port());
    client->Send("POST " + path + " HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n" + more +
                 "Content-Length: " + std::to_string(length) + "\r\n\r\n");
    return client;
  };
  const auto welcome = expect("/echo", 5, "");
  EXPECT_EQ(welcome->Receive()->status, 100);
  welcome->Send("hello");
  EXPECT_EQ(welcome->Receive()->body, "hello");
  EXPECT_EQ(expect("/echo", 5000, "")->Receive()->status, 413);
  EXPECT_EQ(expect("/nowhere", 5, "")->Receive()->status, 404);
  EXPECT_EQ(expect("/hello", 5, "")->Receive()->status, 405);
  EXPECT_EQ(expect("/echo", 5, "X-Key: bad\r\n")->Receive()->status, 503);
}

TEST_F(HttpConnectionTest, HeadersHaveALimit) {
  Start();
  RawClient client(port());
  client.Send("GET /hello HTTP/1.1\r\nHost: h\r\nX: " + std::string(200'000, 'x') + "\r\n\r\n");
  EXPECT_EQ(client.Receive()->status, 431);
}

TEST_F(HttpConnectionTest, SlowRequestsRunOutOfTime) {
  HttpLimits limits;
  limits.header_timeout = milliseconds(50);
  limits.body_timeout = milliseconds(50);
  limits.idle_timeout = milliseconds(50);
  limits.linger_timeout = milliseconds(50);
  Start(limits);
  RawClient header(port());
  header.Send("GET /hel");
  EXPECT_EQ(header.Receive()->status, 408);
  RawClient body(port());
  body.Send("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc");
  EXPECT_EQ(body.Receive()->status, 408);
  RawClient idle(port());
  EXPECT_TRUE(idle.ClosedByServer());
  EXPECT_TRUE(Eventually([&] { return server_->connections() == 0; }));
}

TEST_F(HttpConnectionTest, TooManyConnectionsAreToldSo) {
  HttpLimits limits;
  limits.connections = 3;
  limits.linger_timeout = milliseconds(100);
  Start(limits);
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<RawClient>(port()));
    clients.back()->SendGet("/hello");
    EXPECT_EQ(clients.back()->Receive()->status, 200);
  }
  RawClient fourth(port());
  const auto refused = fourth.Receive();
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 503);
  EXPECT_EQ(refused->headers.at("retry-after"), "1");
  fourth.Close();
  clients.clear();
  EXPECT_TRUE(Eventually([&] { return server_->connections() == 0; }));
  EXPECT_EQ(Fetch(port(), RawClient::Get("/hello")).status, 200);
}

TEST_F(HttpConnectionTest, AClientThatLeavesIsNoticedWhileItWaits) {
  Start();
  RawClient closes(port());
  closes.SendGet("/never");
  RawClient resets(port());
  resets.SendGet("/never");
  RawClient half(port());
  half.SendGet("/never");
  ASSERT_TRUE(Eventually([&] {
    std::lock_guard lock(mutex_);
    return kept_.size() == 3;
  }));
  EXPECT_EQ(gone_, 0);
  closes.Close();
  EXPECT_TRUE(Eventually([&] { return gone_ == 1; }));
  resets.Reset();
  EXPECT_TRUE(Eventually([&] { return gone_ == 2; }));
  half.HalfClose();
  EXPECT_TRUE(Eventually([&] { return gone_ == 3; }));
  EXPECT_TRUE(Eventually([&] { return server_->connections() == 0; }));
  std::lock_guard lock(mutex_);
  EXPECT_EQ(statuses_, (std::vector<int>{499, 499, 499}));
}

TEST_F(HttpConnectionTest, StopLetsAnswersOutAndClosesIdleConnections) {
  Start();
  RawClient idle(port());
  idle.SendGet("/hello");
  idle.Receive();
  RawClient busy(port());
  busy.SendGet("/never");
  ASSERT_TRUE(Eventually([&] {
    std::lock_guard lock(mutex_);
    return kept_.size() == 1;
  }));
  std::thread stopper([&] { server_->Stop(std::chrono::seconds(10)); });
  EXPECT_TRUE(idle.ClosedByServer());
  HttpResponse response;
  response.body = "late";
  kept_[0]->Reply(response);
  EXPECT_EQ(busy.Receive()->body, "late");
  EXPECT_TRUE(busy.ClosedByServer());
  stopper.join();
  EXPECT_EQ(server_->connections(), 0);
}

TEST_F(HttpConnectionTest, ATakenPortIsAnErrorThatNamesIt) {
  Start();
  HttpServerOptions options;
  options.port = port();
  const auto second = HttpServer::Listen(options, &router_);
  ASSERT_FALSE(second.ok());
  const std::string message = engine::Message(second.status());
  EXPECT_NE(message.find("127.0.0.1:" + std::to_string(port())), std::string::npos) << message;
  options.host = "no such host";
  EXPECT_FALSE(HttpServer::Listen(options, &router_).ok());
}

}  // namespace
}  // namespace sluice::server
