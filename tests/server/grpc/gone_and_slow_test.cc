// Clients that cancel, run out of time, vanish or do not read: what they held comes back within a
// step, and nobody else notices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <optional>
#include <thread>

#include "tests/server/grpc/grpc_client.h"
#include "tests/server/grpc/tcp_relay.h"

namespace sluice::testing {
namespace {

wire::GenerateRequest Endless(const std::string& loop = "loop:abcdefgh;") {
  wire::GenerateRequest request = ChatRequest(loop);
  request.set_ignore_eos(true);
  request.set_max_tokens(2000);
  return request;
}

// A stream in the midst of its answer, with the engine held after five steps.
struct HeldStream {
  explicit HeldStream(TestServer& server, uint16_t port, int deadline_ms = 0)
      : stub(wire::GenerationService::NewStub(Connect(port))) {
    server.gate().Hold();
    if (deadline_ms > 0) {
      context.set_deadline(std::chrono::system_clock::now() +
                           std::chrono::milliseconds(deadline_ms));
    }
    reader = stub->Generate(&context, Endless());
    server.gate().Allow(5);
    wire::GenerateResponse response;
    EXPECT_TRUE(reader->Read(&response));
    EXPECT_TRUE(Eventually([&] { return server.engine().stats().steps >= 5; }));
    EXPECT_EQ(server.engine().stats().requests_running, 1);
  }
  // Reads what is left.
  grpc::Status End() {
    wire::GenerateResponse response;
    while (reader->Read(&response)) {
    }
    return reader->Finish();
  }

  std::unique_ptr<wire::GenerationService::Stub> stub;
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReader<wire::GenerateResponse>> reader;
};

// Steps that were under way when the cancel came, and the one that takes the sequence out.
void ExpectFreeWithinAStep(TestServer& server) {
  // Steps that go on until the engine has seen the cancel would hide how many it takes: the call is
  // over at the server, then three steps are let through.
  ASSERT_TRUE(Eventually([&] { return server.front().in_flight().requests() <= 1; }));
  server.gate().Allow(3);
  EXPECT_TRUE(server.WaitUntilIdle());
  EXPECT_LE(server.engine().stats().generation_tokens, 12);
  EXPECT_TRUE(Eventually([&] { return server.front().in_flight().requests() == 0; }));
}

// The number of calls that ended with `code`.
bool Counted(TestServer& server, const std::string& code) {
  return Eventually([&] {
    const std::string text = server.front().metrics()->Render();
    for (size_t at = text.find("sluice_grpc_requests_total{"); at != std::string::npos;
         at = text.find("sluice_grpc_requests_total{", at + 1)) {
      const std::string line = text.substr(at, text.find('\n', at) - at);
      if (line.find("/Generate\"") != std::string::npos && line.find(code) != std::string::npos &&
          line.back() != '0') {
        return true;
      }
    }
    return false;
  });
}

TEST(Gone, ACancelFreesWithinAStep) {
  TestServer server(WithGrpc());
  HeldStream stream(server, server.grpc_port());
  stream.context.TryCancel();
  EXPECT_EQ(stream.End().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(Counted(server, "CANCELLED"));
  ExpectFreeWithinAStep(server);
}

TEST(Gone, ADeadlineFreesWithinAStep) {
  TestServer server(WithGrpc());
  HeldStream stream(server, server.grpc_port(), 1500);
  EXPECT_EQ(stream.End().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(Counted(server, "DEADLINE_EXCEEDED"));
  ExpectFreeWithinAStep(server);
}

// Its connection is cut, without a word of HTTP/2.
TEST(Gone, AVanishedClientFreesWithinAStep) {
  TestServer server(WithGrpc());
  TcpRelay relay(server.grpc_port());
  HeldStream stream(server, relay.port());
  relay.Cut();
  EXPECT_EQ(stream.End().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(Counted(server, "CANCELLED"));
  ExpectFreeWithinAStep(server);
}

// It is there no more, and nothing says so: pings do.
TEST(Gone, ASilentClientIsNoticedByPings) {
  TestServerOptions options = WithGrpc();
  options.front.grpc.keepalive_time = std::chrono::milliseconds(1000);
  options.front.grpc.keepalive_timeout = std::chrono::milliseconds(500);
  TestServer server(options);
  TcpRelay relay(server.grpc_port());
  HeldStream stream(server, relay.port());
  relay.Freeze();
  EXPECT_TRUE(Counted(server, "CANCELLED"));
  ExpectFreeWithinAStep(server);
  relay.Cut();
  stream.End();
}

TEST(Gone, ADeadlineThatHasPassedCostsTheEngineNothing) {
  TestServer server(WithGrpc());
  const auto stub = StubOf(server.grpc_port());
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() - std::chrono::seconds(1));
  EXPECT_EQ(Generate(*stub, Endless(), &context).status.error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(server.WaitUntilIdle());
}

TEST(Gone, HundredsOfCutStreamsLeaveNothing) {
  TestServer server(WithGrpc());
  const auto stub = StubOf(server.grpc_port());
  for (int i = 0; i < 200; ++i) {
    grpc::ClientContext context;
    if (i % 4 == 3) {
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(i % 8));
    }
    const auto reader = stub->Generate(&context, Endless());
    wire::GenerateResponse response;
    for (int k = 0; k < i % 3; ++k) reader->Read(&response);
    context.TryCancel();
    reader->Finish();
  }
  EXPECT_TRUE(server.WaitUntilIdle());
  EXPECT_TRUE(Eventually([&] { return server.front().in_flight().requests() == 0; }));
  EXPECT_EQ(Generate(server.grpc_port(), ChatRequest("say:well;")).text(), "well");
}

// Deadlines of 1 to 50 ms for answers of some 30 ms, from many clients: whichever comes first, the
// end or the deadline, a call ends once, with one of the two; or it is told at once that it would
// wait longer than its deadline allows.
TEST(Gone, ShortDeadlinesOfManyClientsLeaveNothing) {
  TestServerOptions options = WithGrpc();
  options.fails = [](uint64_t) {  // a device that takes its time
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return false;
  };
  TestServer server(options);
  constexpr int kClients = 32;
  constexpr int kCalls = 15;
  std::atomic<int> finished{0}, late{0};
  std::vector<std::thread> clients;
  for (int client = 0; client < kClients; ++client) {
    clients.emplace_back([&, client] {
      const auto stub = StubOf(server.grpc_port());
      for (int call = 0; call < kCalls; ++call) {
        // Some have time enough on any machine.
        const int ms = call == 0 ? 60'000 : 1 + (client * 7 + call * 13) % 50;
        grpc::ClientContext context;
        context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(ms));
        wire::GenerateRequest request = ChatRequest("loop:abc;");
        request.set_max_tokens(25);
        const grpc::Status status = Generate(*stub, request, &context).status;
        if (status.ok()) {
          ++finished;
        } else {
          EXPECT_TRUE(status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ||
                      (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED &&
                       status.error_message().find("would wait") != std::string::npos))
              << status.error_code() << ": " << status.error_message();
          ++late;
        }
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(finished + late, kClients * kCalls);
  EXPECT_GE(finished, kClients);
  EXPECT_GT(late, 0);
  EXPECT_TRUE(server.WaitUntilIdle());
  EXPECT_TRUE(Eventually([&] { return server.front().in_flight().requests() == 0; }));
  EXPECT_EQ(Generate(server.grpc_port(), ChatRequest("say:well;")).text(), "well");
}

TestServerOptions LongAnswers() {
  TestServerOptions options = WithGrpc();
  options.model.context_tokens = 100'000;
  options.limits.kv_blocks = 20'000;
  return options;
}

// A client that reads later gets all, in few messages.
TEST(Slow, WhatWaitsIsMerged) {
  TestServerOptions options = LongAnswers();
  options.front.grpc.backlog_bytes = 64 << 20;
  TestServer server(options);
  // A window that holds a small part of the answer.
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 16 << 10);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  const auto stub = wire::GenerationService::NewStub(Connect(server.grpc_port(), arguments));
  constexpr int kTokens = 60'000;
  wire::GenerateRequest request = Endless("loop:0123456789;");
  request.set_max_tokens(kTokens);
  grpc::ClientContext context;
  const auto reader = stub->Generate(&context, request);
  ASSERT_TRUE(Eventually([&] { return server.engine().stats().generation_tokens == kTokens; }));
  std::string text;
  int responses = 0;
  int64_t tokens = 0;
  wire::GenerateResponse response;
  while (reader->Read(&response)) {
    ++responses;
    text += response.text();
    tokens += response.token_ids_size();
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(tokens, kTokens);
  ASSERT_EQ(text.size(), static_cast<size_t>(kTokens));
  for (size_t i = 0; i < text.size(); ++i) ASSERT_EQ(text[i], static_cast<char>('0' + i % 10));
  EXPECT_LT(responses, kTokens / 2);
  EXPECT_EQ(response.usage().completion_tokens(), kTokens);
}

// One that never reads is cut off when its backlog is full; one beside it gets every token.
TEST(Slow, AReaderThatStopsIsCutOffAndSlowsNobody) {
  TestServerOptions options = LongAnswers();
  options.front.grpc.backlog_bytes = 64 << 10;
  TestServer server(options);
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 16 << 10);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  const auto stub = wire::GenerationService::NewStub(Connect(server.grpc_port(), arguments));
  wire::GenerateRequest request = Endless();
  request.set_max_tokens(90'000);
  grpc::ClientContext context;
  const auto slow = stub->Generate(&context, request);
  wire::GenerateRequest friendly = ChatRequest("loop:0123456789;");
  friendly.set_max_tokens(500);
  const Answers got = Generate(server.grpc_port(), friendly);
  EXPECT_TRUE(got.status.ok()) << got.status.error_message();
  EXPECT_EQ(got.text().size(), 500u);
  EXPECT_TRUE(server.WaitUntilIdle());
  EXPECT_LT(server.engine().stats().generation_tokens, 90'000);
  EXPECT_TRUE(Counted(server, "ABORTED"));
  wire::GenerateResponse response;
  while (slow->Read(&response)) {
  }
  EXPECT_FALSE(slow->Finish().ok());
}

}  // namespace
}  // namespace sluice::testing
