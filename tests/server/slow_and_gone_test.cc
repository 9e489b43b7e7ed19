// Clients that leave and clients that do not read: what they held comes back, and nobody else
// notices.
#include <gtest/gtest.h>

#include <memory>

#include "tests/server/support/json_client.h"
#include "tests/server/support/test_server.h"

namespace sluice::testing {
namespace {

constexpr char kChat[] = "/v1/chat/completions";

std::string Endless(bool stream) {
  return ChatBody("loop:abcdefgh;", "\"ignore_eos\":true,\"max_tokens\":2000,\"stream\":" +
                                        std::string(stream ? "true" : "false"));
}

class GoneTest : public ::testing::TestWithParam<bool> {};

// The blocks are free within one step of the engine, however long the answer would have been.
TEST_P(GoneTest, BlocksAreFreeWithinAStep) {
  TestServer server;
  server.gate().Hold();
  RawClient client(server.port());
  client.SendPost(kChat, Endless(GetParam()));
  // Prefill and a few tokens; steps are handed out one by one from here.
  server.gate().Allow(5);
  ASSERT_TRUE(Eventually([&] { return server.engine().stats().steps >= 5; }));
  EXPECT_EQ(server.engine().stats().requests_running, 1);
  client.Reset();
  ASSERT_TRUE(Eventually([&] { return server.front().connections() == 0; }));
  // Steps that were under way when the cancel came, and the one that takes the sequence out.
  server.gate().Allow(3);
  EXPECT_TRUE(server.WaitUntilIdle());
  EXPECT_LE(server.engine().stats().generation_tokens, 12);
}

TEST_P(GoneTest, LeavingWhileQueuedWorksToo) {
  TestServerOptions options;
  options.engine.running_max = 1;
  TestServer server(options);
  server.gate().Hold();
  RawClient first(server.port());
  first.SendPost(kChat, Endless(GetParam()));
  RawClient second(server.port());
  second.SendPost(kChat, Endless(GetParam()));
  // Step by step, since the engine takes requests in between steps.
  ASSERT_TRUE(Eventually([&] {
    server.gate().Allow(1);
    return server.engine().stats().requests_waiting == 1;
  }));
  ASSERT_EQ(server.front().connections(), 2);
  second.Close();
  // The engine looks at cancels between steps: those come when the front has seen the client go.
  ASSERT_TRUE(Eventually([&] { return server.front().connections() == 1; }));
  EXPECT_TRUE(Eventually([&] {
    server.gate().Allow(1);
    return server.engine().stats().requests_waiting == 0;
  }));
  first.Close();
  ASSERT_TRUE(Eventually([&] { return server.front().connections() == 0; }));
  server.gate().Release();
  EXPECT_TRUE(server.WaitUntilIdle());
}

INSTANTIATE_TEST_SUITE_P(StreamAndPlain, GoneTest, ::testing::Bool());

TEST(Gone, HundredsOfCutStreamsLeaveNothing) {
  TestServer server;
  for (int i = 0; i < 200; ++i) {
    RawClient client(server.port());
    client.SendPost(kChat, Endless(i % 3 != 0));
    if (i % 3 == 1) {
      client.ReceiveHead();
      for (int k = 0; k < 3; ++k) client.ReadEvent();
    }
    if (i % 2 == 0) {
      client.Reset();
    } else {
      client.Close();
    }
  }
  EXPECT_TRUE(server.WaitUntilIdle());
  EXPECT_TRUE(Eventually([&] { return server.front().connections() == 0; }));
  EXPECT_EQ(StreamChat(server.port(), ChatBody("say:well;", "\"stream\":true")).text, "well");
}

// A reader that stops is cancelled when its backlog is full; a reader beside it gets every token.
TEST(Slow, AReaderThatStopsIsCutOffAndSlowsNobody) {
  // Room for all of the friendly answer, which the engine here can write faster than any thread is
  // scheduled, and for a hundredth of the others'.
  TestServerOptions options;
  options.front.http.limits.backlog_bytes = 256 << 10;
  options.front.http.limits.send_buffer_bytes = 16 << 10;
  options.model.context_tokens = 100'000;
  options.limits.kv_blocks = 20'000;
  TestServer server(options);
  std::vector<std::unique_ptr<RawClient>> slow;
  const std::string body =
      ChatBody("loop:abcdefgh;", "\"ignore_eos\":true,\"max_tokens\":90000,\"stream\":true");
  for (int i = 0; i < 3; ++i) {
    slow.push_back(std::make_unique<RawClient>(server.port(), 4096));
    slow.back()->SendPost(kChat, body);
  }
  const Stream friendly =
      StreamChat(server.port(), ChatBody("loop:0123456789;", "\"max_tokens\":500,\"stream\":true"));
  EXPECT_TRUE(friendly.done);
  EXPECT_EQ(friendly.text.size(), 500u);
  EXPECT_TRUE(server.WaitUntilIdle());
  EXPECT_TRUE(Eventually([&] { return server.front().connections() == 0; }));
}

TEST(Slow, AWriteThatStallsEndsTheConnection) {
  TestServerOptions options;
  options.front.http.limits.backlog_bytes = 64 << 20;
  options.front.http.limits.send_buffer_bytes = 16 << 10;
  options.front.http.limits.stall_timeout = std::chrono::milliseconds(100);
  options.model.context_tokens = 100'000;
  options.limits.kv_blocks = 20'000;
  TestServer server(options);
  RawClient slow(server.port(), 4096);
  slow.SendPost(kChat, ChatBody("loop:abcdefgh;",
                                "\"ignore_eos\":true,\"max_tokens\":90000,\"stream\":true"));
  EXPECT_TRUE(Eventually([&] { return server.front().connections() == 1; }));
  EXPECT_TRUE(Eventually([&] { return server.front().connections() == 0; }));
  EXPECT_TRUE(server.WaitUntilIdle());
}

}  // namespace
}  // namespace sluice::testing
