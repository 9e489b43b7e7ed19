// What the server keeps of requests that are over, and for readers that are slow, counted to the
// byte: every operator new and delete of the process is seen.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/grpc/grpc_client.h"
#include "tests/server/support/json_client.h"
#include "tests/server/support/test_server.h"

namespace {
std::atomic<int64_t> g_live{0};  // bytes in use
}  // namespace

// Not inlined: the compiler would see malloc meet delete, and free meet new.
#define SLUICE_NOINLINE __attribute__((noinline))
SLUICE_NOINLINE void* operator new(size_t size) {
  void* data = std::malloc(size == 0 ? 1 : size);
  if (data == nullptr) throw std::bad_alloc();
  g_live.fetch_add(static_cast<int64_t>(malloc_usable_size(data)), std::memory_order_relaxed);
  return data;
}
SLUICE_NOINLINE void* operator new[](size_t size) { return operator new(size); }
SLUICE_NOINLINE void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return operator new(size);
}
SLUICE_NOINLINE void* operator new[](size_t size, const std::nothrow_t&) noexcept {
  return operator new(size);
}
SLUICE_NOINLINE void operator delete(void* data) noexcept {
  if (data == nullptr) return;
  g_live.fetch_sub(static_cast<int64_t>(malloc_usable_size(data)), std::memory_order_relaxed);
  std::free(data);
}
SLUICE_NOINLINE void operator delete[](void* data) noexcept { operator delete(data); }
SLUICE_NOINLINE void operator delete(void* data, size_t) noexcept { operator delete(data); }
SLUICE_NOINLINE void operator delete[](void* data, size_t) noexcept { operator delete(data); }

namespace sluice::testing {
namespace {

constexpr char kChat[] = "/v1/chat/completions";

// Requests of all kinds, no two alike: prompts, salts, tenants, ids, deadlines that never come,
// streams and refusals.
void AskOnce(RawClient& client, int number) {
  const std::string name = std::to_string(number);
  std::string more = "\"max_tokens\":1,\"cache_salt\":\"s" + name + "\"";
  if (number % 3 == 0) more += ",\"n\":2";
  if (number % 4 == 0) more += ",\"stop\":[\"stop" + name + "\"],\"seed\":" + name;
  if (number % 5 == 0) more += ",\"stream\":true";
  if (number % 7 == 0) more += ",\"temperature\":9";
  const std::string body = ChatBody("prompt " + name, more);
  client.Send("POST " + std::string(kChat) + " HTTP/1.1\r\nHost: test\r\nX-Tenant: tenant" + name +
              "\r\nX-Request-Id: id-" + name +
              "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  const auto response = client.Receive();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, number % 7 == 0 ? 400 : 200) << response->body;
  if (number % 50 == 0) {
    client.SendGet("/metrics");
    EXPECT_EQ(client.Receive()->status, 200);
  }
}

TEST(Memory, RequestsThatAreOverLeaveNothing) {
  TestServerOptions options;
  options.front.caps.tenant_header = "x-tenant";
  options.engine.record_bytes = 0;  // the flight record grows to its limit
  TestServer server(options);
  RawClient client(server.port());
  constexpr int kWarm = 1500;  // until all that is bounded is full: lists of tenants, spare buffers
  constexpr int kMore = 3000;
  int number = 1000;
  const auto ask = [&](int count) {
    for (const int end = number + count; number < end; ++number) AskOnce(client, number);
    EXPECT_TRUE(server.WaitUntilIdle());
  };
  ask(kWarm);
  const int64_t before = g_live;
  ask(kMore);
  // Two bytes of each would show.
  EXPECT_LT(g_live - before, 2 * kMore);
}

TEST(Memory, CallsThatAreOverLeaveNothing) {
  TestServerOptions options = WithGrpc();
  options.engine.record_bytes = 0;
  TestServer server(options);
  const auto stub = StubOf(server.grpc_port());
  int number = 1000;
  const auto ask = [&](int count) {
    for (const int end = number + count; number < end; ++number) {
      wire::GenerateRequest request = ChatRequest("prompt " + std::to_string(number));
      request.set_max_tokens(number % 7 == 0 ? -1 : 2);
      request.set_cache_salt(std::to_string(number));
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() +
                           std::chrono::milliseconds(number % 5 == 0 ? 0 : 60'000));
      Generate(*stub, request, &context);
    }
    EXPECT_TRUE(server.WaitUntilIdle());
    EXPECT_TRUE(Eventually([&] { return server.front().in_flight().requests() == 0; }));
  };
  ask(1000);
  const int64_t before = g_live;
  ask(2000);
  EXPECT_LT(g_live - before, 16 * 2000) << "less than any object of a call";
}

// A hundred that read a few bytes now and then, of answers a hundred times their backlog.
TEST(Memory, SlowReadersHoldNoMoreThanTheirBacklogs) {
  constexpr int kReaders = 100;
  constexpr int64_t kBacklog = 32 << 10;
  TestServerOptions options;
  options.engine.running_max = kReaders;
  options.limits.slots = kReaders;
  options.limits.kv_blocks = 200'000;
  options.model.context_tokens = 20'000;
  options.front.http.limits.backlog_bytes = kBacklog;
  options.front.http.limits.send_buffer_bytes = 8 << 10;
  TestServer server(options);
  server.gate().Hold();
  std::vector<std::unique_ptr<RawClient>> readers;
  for (int i = 0; i < kReaders; ++i) {
    readers.push_back(std::make_unique<RawClient>(server.port(), 4096));
    readers.back()->SendPost(
        kChat,
        ChatBody("loop:abcdefgh;", "\"ignore_eos\":true,\"max_tokens\":15000,\"stream\":true"));
  }
  ASSERT_TRUE(Eventually([&] {
    server.gate().Allow(1);
    return server.engine().stats().requests_running == kReaders;
  }));
  const int64_t before = g_live;
  int64_t most = before;
  server.gate().Release();
  // Each has its buffers for writing besides, and the engine its own of the tokens.
  constexpr int64_t kEach = 3 * kBacklog + 15'000 * 4;
  ASSERT_TRUE(Eventually([&] {
    for (const auto& reader : readers) reader->ReadSome(10);
    most = std::max<int64_t>(most, g_live);
    return server.front().connections() == 0;
  }));
  EXPECT_LT(most - before, kReaders * kEach);
  EXPECT_TRUE(server.WaitUntilIdle());
  EXPECT_LT(server.engine().stats().generation_tokens, kReaders * 15'000);
  EXPECT_EQ(Fetch(server.port(), RawClient::Post(kChat, ChatBody("say:well;"))).status, 200);
}

}  // namespace
}  // namespace sluice::testing
