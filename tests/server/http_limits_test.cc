// What clients together may take: each limit answers with its status and names itself, and lets go
// again.
#include <gtest/gtest.h>

#include <memory>

#include "server/http/http_server.h"
#include "tests/server/support/json_client.h"
#include "tests/server/support/raw_client.h"
#include "tests/server/support/test_server.h"

namespace sluice::server {
namespace {

using std::chrono::milliseconds;
using testing::Eventually;
using testing::Fetch;
using testing::Parsed;
using testing::PostJson;
using testing::RawClient;
using testing::RawResponse;

std::string CodeOf(const RawResponse& response) {
  return Parsed(response.body).at("error").at("code").as_string().c_str();
}

// /length answers with the body's size, /large with a megabyte.
class HttpLimitsTest : public ::testing::Test {
 protected:
  void Start(const HttpServerOptions& wanted) {
    router_.Add("POST", "/length", [](std::shared_ptr<Exchange> exchange) {
      HttpResponse response;
      response.body = std::to_string(exchange->TakeBody().text.size());
      exchange->Reply(response);
    });
    router_.Add("GET", "/large", [](std::shared_ptr<Exchange> exchange) {
      HttpResponse response;
      response.body.assign(1 << 20, 'x');
      exchange->Reply(response);
    });
    HttpServerOptions options = wanted;
    options.port = 0;
    auto server = HttpServer::Listen(options, &router_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = std::move(*server);
  }
  uint16_t port() const { return server_->port(); }

  Router router_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpLimitsTest, OneAddressCannotTakeAllConnections) {
  HttpServerOptions options;
  options.limits.peer_connections = 3;
  options.limits.linger_timeout = milliseconds(100);
  Start(options);
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<RawClient>(port()));
    clients.back()->SendPost("/length", "x");
    EXPECT_EQ(clients.back()->Receive()->status, 200);
  }
  const auto refused = RawClient(port()).Receive();
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 429);
  EXPECT_EQ(refused->headers.at("retry-after"), "1");
  EXPECT_EQ(CodeOf(*refused), "peer_connections_full");
  EXPECT_NE(refused->body.find("127.0.0.1: 3 "), std::string::npos) << refused->body;
  clients.pop_back();
  EXPECT_TRUE(
      Eventually([&] { return Fetch(port(), RawClient::Post("/length", "abc")).status == 200; }));
}

// Those who are told that there is no place take none themselves.
TEST_F(HttpLimitsTest, RefusedConnectionsDoNotKeepOthersOut) {
  HttpServerOptions options;
  options.limits.connections = 4;
  options.limits.peer_connections = 1;
  options.limits.linger_timeout = milliseconds(60'000);
  Start(options);
  auto first = std::make_unique<RawClient>(port());
  first->SendPost("/length", "x");
  EXPECT_EQ(first->Receive()->status, 200);
  std::vector<std::unique_ptr<RawClient>> refused;
  for (int i = 0; i < 10; ++i) {
    refused.push_back(std::make_unique<RawClient>(port()));
    EXPECT_EQ(refused.back()->Receive()->status, 429);
  }
  first.reset();
  EXPECT_TRUE(
      Eventually([&] { return Fetch(port(), RawClient::Post("/length", "abc")).status == 200; }));
}

TEST_F(HttpLimitsTest, BodiesTogetherHaveABudgetThatSmallOnesDoNotNeed) {
  HttpServerOptions options;
  options.limits.bodies_bytes = 100'000;
  options.limits.free_bytes = 10'000;
  Start(options);
  const std::string head = "POST /length HTTP/1.1\r\nHost: h\r\nContent-Length: 90000\r\n\r\n";
  EXPECT_TRUE(Eventually([&] {  // once the first happens to be read before the second
    RawClient first(port());
    first.Send(head + std::string(80'000, 'x'));
    RawClient second(port());
    second.Send(head + std::string(80'000, 'x'));
    second.HalfClose();
    const auto refused = second.Receive();
    if (!refused || refused->status != 503) return false;
    EXPECT_EQ(refused->headers.at("retry-after"), "1");
    EXPECT_EQ(CodeOf(*refused), "bodies_full");
    EXPECT_NE(refused->body.find("at most 100000 may"), std::string::npos) << refused->body;
    EXPECT_EQ(Fetch(port(), RawClient::Post("/length", std::string(9'000, 'x'))).body, "9000");
    first.Send(std::string(10'000, 'x'));
    const auto answer = first.Receive();
    return answer && answer->body == "90000";
  }));
  EXPECT_EQ(Fetch(port(), RawClient::Post("/length", std::string(90'000, 'x'))).body, "90000");
}

TEST_F(HttpLimitsTest, AnswersThatWaitTogetherHaveABudget) {
  HttpServerOptions options;
  options.limits.answers_bytes = 3 << 19;
  options.limits.send_buffer_bytes = 16 << 10;
  Start(options);
  auto slow = std::make_unique<RawClient>(port(), 4096);
  slow->SendGet("/large");
  ASSERT_EQ(slow->ReceiveHead()->status, 200);
  const RawResponse second = Fetch(port(), RawClient::Get("/large"));
  EXPECT_EQ(second.status, 503);
  EXPECT_EQ(CodeOf(second), "answers_full");
  EXPECT_EQ(second.headers.at("retry-after"), "1");
  EXPECT_EQ(Fetch(port(), RawClient::Post("/length", "abc")).body, "3");
  slow.reset();
  EXPECT_TRUE(Eventually([&] { return Fetch(port(), RawClient::Get("/large")).status == 200; }));
}

TEST_F(HttpLimitsTest, HeaderLinesAreCounted) {
  HttpServerOptions options;
  options.limits.header_count = 10;
  Start(options);
  std::string lines;
  for (int i = 0; i < 20; ++i) lines += "X-" + std::to_string(i) + ": y\r\n";
  const RawResponse refused = Fetch(port(), "GET /large HTTP/1.1\r\nHost: h\r\n" + lines + "\r\n");
  EXPECT_EQ(refused.status, 431);
  EXPECT_NE(refused.body.find("21 headers, at most 10"), std::string::npos) << refused.body;
}

TEST_F(HttpLimitsTest, OtherOriginsMayCallOnlyWhenListed) {
  HttpServerOptions options;
  options.cors_origins = {"https://chat.example"};
  Start(options);
  const auto call = [&](const std::string& line, const std::string& origin) {
    return Fetch(port(),
                 line + " HTTP/1.1\r\nHost: h\r\nOrigin: " + origin +
                     "\r\nAccess-Control-Request-Method: POST\r\nConnection: close\r\n\r\n");
  };
  const RawResponse listed = call("OPTIONS /length", "https://chat.example");
  EXPECT_EQ(listed.status, 204);
  EXPECT_EQ(listed.headers.at("access-control-allow-origin"), "https://chat.example");
  EXPECT_EQ(listed.headers.at("vary"), "Origin");
  EXPECT_NE(listed.headers.at("access-control-allow-methods").find("POST"), std::string::npos);
  EXPECT_NE(listed.headers.at("access-control-allow-headers").find("Authorization"),
            std::string::npos);
  EXPECT_EQ(listed.headers.count("content-length"), 0u);
  const RawResponse answer = call("GET /large", "https://chat.example");
  EXPECT_EQ(answer.headers.at("access-control-allow-origin"), "https://chat.example");
  // Errors can be read as well.
  EXPECT_EQ(
      call("GET /nowhere", "https://chat.example").headers.count("access-control-allow-origin"),
      1u);
  const RawResponse other = call("OPTIONS /length", "https://evil.example");
  EXPECT_EQ(other.status, 405);
  EXPECT_EQ(other.headers.count("access-control-allow-origin"), 0u);
}

TEST_F(HttpLimitsTest, CorsIsOffByDefault) {
  Start({});
  const RawResponse answer =
      Fetch(port(),
            "OPTIONS /length HTTP/1.1\r\nHost: h\r\nOrigin: https://chat.example\r\n"
            "Access-Control-Request-Method: POST\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(answer.status, 405);
  EXPECT_EQ(answer.headers.at("allow"), "POST");
  EXPECT_EQ(answer.headers.count("access-control-allow-origin"), 0u);
  EXPECT_EQ(answer.headers.count("vary"), 0u);
}

constexpr char kCompletions[] = "/v1/completions";

TEST(InFlightLimits, RequestsAreCountedToTheEndOfTheirAnswers) {
  testing::TestServerOptions options;
  options.front.in_flight.requests = 2;
  testing::TestServer server(options);
  server.gate().Hold();
  RawClient first(server.port());
  first.SendPost(kCompletions, R"({"prompt":"say:one;"})");
  RawClient second(server.port());
  second.SendPost(kCompletions, R"({"prompt":"say:two;"})");
  RawResponse refused;
  EXPECT_TRUE(Eventually([&] {  // once both are there; before that it is one of the two itself
    RawClient third(server.port());
    third.SendPost("/tokenize", R"({"prompt":"x"})");
    refused = *third.Receive();
    return refused.status == 429;
  }));
  EXPECT_EQ(CodeOf(refused), "requests_full");
  EXPECT_EQ(refused.headers.at("retry-after"), "1");
  EXPECT_NE(refused.body.find("2 are in flight"), std::string::npos) << refused.body;
  server.gate().Release();
  EXPECT_EQ(first.Receive()->status, 200);
  EXPECT_EQ(second.Receive()->status, 200);
  EXPECT_TRUE(Eventually([&] {
    return Fetch(server.port(), RawClient::Post("/tokenize", R"({"prompt":"x"})")).status == 200;
  }));
}

TEST(InFlightLimits, PromptTokensAreCountedForEachAnswer) {
  testing::TestServerOptions options;
  options.front.in_flight.prompt_tokens = 100;
  testing::TestServer server(options);
  server.gate().Hold();
  RawClient first(server.port());
  first.SendPost(kCompletions, "{\"n\":2,\"prompt\":\"" + std::string(40, 'x') + "\"}");
  ASSERT_TRUE(Eventually([&] { return server.front().in_flight().prompt_tokens() == 80; }));
  const std::string thirty = "{\"prompt\":\"" + std::string(30, 'x') + "\"}";
  const RawResponse full = Fetch(server.port(), RawClient::Post(kCompletions, thirty));
  EXPECT_EQ(full.status, 429);
  EXPECT_EQ(CodeOf(full), "prompt_tokens_full");
  EXPECT_GE(std::stoi(full.headers.at("retry-after")), 1);
  EXPECT_NE(full.body.find("80 are in flight"), std::string::npos) << full.body;
  EXPECT_NE(full.body.find("limit of 100"), std::string::npos) << full.body;
  // What could never fit is not to be tried again.
  const boost::json::value never = PostJson(
      server.port(), kCompletions, "{\"n\":3,\"prompt\":\"" + std::string(40, 'x') + "\"}", 400);
  EXPECT_EQ(never.at("error").at("param"), "prompt");
  server.gate().Release();
  EXPECT_EQ(first.Receive()->status, 200);
  EXPECT_TRUE(Eventually([&] { return server.front().in_flight().prompt_tokens() == 0; }));
  EXPECT_EQ(Fetch(server.port(), RawClient::Post(kCompletions, thirty)).status, 200);
}

// A client that leaves gives back its place too.
TEST(InFlightLimits, LeavingGivesThePlaceBack) {
  testing::TestServerOptions options;
  options.front.in_flight.requests = 1;
  testing::TestServer server(options);
  {
    RawClient client(server.port());
    client.SendPost(kCompletions, R"({"prompt":"loop:x;","max_tokens":2000,"stream":true})");
    EXPECT_EQ(client.ReceiveHead()->status, 200);
  }
  EXPECT_TRUE(Eventually([&] { return server.front().in_flight().requests() == 0; }));
  PostJson(server.port(), kCompletions, R"({"prompt":"say:x;"})");
}

}  // namespace
}  // namespace sluice::server
