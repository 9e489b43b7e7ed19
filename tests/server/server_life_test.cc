// Loading, ready, overloaded, draining, failed: what each state answers.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "tests/server/support/json_client.h"
#include "tests/server/support/test_server.h"

namespace sluice::testing {
namespace {

using server::Readiness;

constexpr char kChat[] = "/v1/chat/completions";

int StatusOf(TestServer& server, const char* path) {
  return Fetch(server.port(), RawClient::Get(path)).status;
}

TEST(ServerLife, LoadingThenReady) {
  TestServerOptions options;
  options.load = false;
  TestServer server(options);
  EXPECT_EQ(StatusOf(server, "/livez"), 200);
  for (const char* path : {"/readyz", "/health", "/ping"}) {
    const RawResponse response = Fetch(server.port(), RawClient::Get(path));
    EXPECT_EQ(response.status, 503);
    EXPECT_EQ(response.headers.at("retry-after"), "1");
    EXPECT_EQ(Parsed(response.body).at("status"), "loading");
    EXPECT_DOUBLE_EQ(Parsed(response.body).at("progress").as_double(), 0.5);
  }
  EXPECT_EQ(StatusOf(server, "/v1/models"), 503);
  EXPECT_EQ(PostJson(server.port(), kChat, ChatBody("say:a;"), 503).at("error").at("code"),
            "loading");
  EXPECT_EQ(StatusOf(server, "/metrics"), 200);
  PostJson(server.port(), "/tokenize", R"({"prompt":"x"})");
  server.Load();
  EXPECT_EQ(StatusOf(server, "/readyz"), 200);
  EXPECT_EQ(StatusOf(server, "/v1/models"), 200);
  PostJson(server.port(), kChat, ChatBody("say:a;"));
}

// Of the only model there is.
std::string AdminStateOf(TestServer& server, const std::string& key) {
  const RawResponse response =
      Fetch(server.port(),
            "GET /admin/state HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer " + key + "\r\n\r\n");
  EXPECT_EQ(response.status, 200) << response.body;
  const auto body = Parsed(response.body);
  const auto& models = body.at("models").as_object();
  EXPECT_EQ(models.size(), 1u);
  return std::string(models.begin()->value().at("state").as_string());
}

TEST(ServerLife, AdminStateSaysWhenThereIsNoEngineToShow) {
  const std::string key = "sixteen-and-more", path = ::testing::TempDir() + "admin_key";
  std::ofstream(path) << key << '\n';
  TestServerOptions options;
  options.front.admin_key_file = path;
  options.load = false;
  options.fails = [](uint64_t step) { return step >= 2; };
  TestServer server(options);
  EXPECT_EQ(AdminStateOf(server, key), "loading");
  server.Load();
  EXPECT_EQ(AdminStateOf(server, key), "serving");
  RawClient client(server.port());
  client.SendPost(kChat, ChatBody("loop:a;", "\"ignore_eos\":true"));
  ASSERT_TRUE(Eventually([&] { return server.fatal(); }));
  EXPECT_EQ(AdminStateOf(server, key), "stopped");
}

TEST(ServerLife, VersionAndUnknownPaths) {
  TestServer server;
  EXPECT_EQ(Parsed(Fetch(server.port(), RawClient::Get("/version")).body).at("version"), "test");
  EXPECT_EQ(StatusOf(server, "/nothing"), 404);
  EXPECT_EQ(Fetch(server.port(), RawClient::Get(kChat)).status, 405);
}

TEST(ServerLife, AFullQueueIs429WithRetryAfter) {
  TestServerOptions options;
  options.engine.running_max = 1;
  options.engine.waiting_max = 2;
  options.model.waiting_max = 2;
  TestServer server(options);
  server.gate().Hold();
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.port()));
    clients.back()->SendPost(kChat, ChatBody("loop:abc;", "\"max_tokens\":1900"));
  }
  // Step by step, since the engine takes requests in between steps.
  ASSERT_TRUE(Eventually([&] {
    server.gate().Allow(1);
    return server.engine().stats().requests_waiting == 2;
  }));
  const RawResponse refused = Fetch(server.port(), RawClient::Post(kChat, ChatBody("say:no;")));
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(Parsed(refused.body).at("error").at("code"), "queue_full");
  // The refused are not all told to come back at once.
  int last = std::stoi(refused.headers.at("retry-after"));
  EXPECT_GE(last, 1);
  for (int i = 0; i < 3; ++i) {
    const RawResponse next = Fetch(server.port(), RawClient::Post(kChat, ChatBody("say:no;")));
    const int seconds = std::stoi(next.headers.at("retry-after"));
    EXPECT_GT(seconds, last);
    last = seconds;
  }
  const std::string metrics = Fetch(server.port(), RawClient::Get("/metrics")).body;
  EXPECT_NE(metrics.find("sluice_requests_rejected_total{reason=\"queue_full\"} 4"),
            std::string::npos);
  server.gate().Release();
  for (auto& client : clients) EXPECT_EQ(client->Receive()->status, 200);
  EXPECT_EQ(Fetch(server.port(), RawClient::Post(kChat, ChatBody("say:yes;"))).status, 200);
}

// All prompts of a request are taken in, or none.
TEST(ServerLife, PromptsThatDoNotAllFitLeaveNothing) {
  TestServerOptions options;
  options.engine.running_max = 1;
  options.engine.waiting_max = 3;
  TestServer server(options);
  server.gate().Hold();  // or the first could be done before the last is taken in
  const RawResponse refused = Fetch(
      server.port(), RawClient::Post("/v1/completions",
                                     R"({"prompt":["a","b","c","d","e","f"],"max_tokens":900})"));
  EXPECT_EQ(refused.status, 429);
  server.gate().Release();
  EXPECT_TRUE(server.WaitUntilIdle());
}

TEST(ServerLife, ALameDuckSaysNotReadyAndAnswersAllTheSame) {
  TestServer server;
  server.readiness().Set(Readiness::State::kLameDuck);
  for (const char* path : {"/readyz", "/health", "/ping"}) {
    const RawResponse response = Fetch(server.port(), RawClient::Get(path));
    EXPECT_EQ(response.status, 503);
    EXPECT_EQ(response.headers.at("retry-after"), "1");
    EXPECT_EQ(Parsed(response.body).at("status"), "draining");
  }
  EXPECT_EQ(StatusOf(server, "/livez"), 200);
  PostJson(server.port(), kChat, ChatBody("say:a;"));
  server.readiness().Set(Readiness::State::kReady);  // there is no way back
  EXPECT_EQ(StatusOf(server, "/readyz"), 503);
}

// Connections that do nothing end with the port; the one with a stream on it ends after that.
TEST(ServerLife, ClosingEndsIdleConnectionsAndNoStreams) {
  TestServer server;
  server.gate().Hold();
  RawClient streaming(server.port());
  streaming.SendPost(kChat, ChatBody("say:finished;", "\"stream\":true"));
  ASSERT_TRUE(Eventually([&] { return server.engine().stats().requests_running == 1; }));
  RawClient idle(server.port());
  idle.SendGet("/livez");
  EXPECT_EQ(idle.Receive()->status, 200);
  server.front().StartClosing(std::chrono::seconds(20));
  EXPECT_TRUE(idle.ClosedByServer());
  server.gate().Release();
  ASSERT_TRUE(streaming.ReceiveHead());
  const Stream stream = Stream::Read(streaming);
  EXPECT_TRUE(stream.done);
  EXPECT_EQ(stream.text, "finished");
  EXPECT_TRUE(streaming.ClosedByServer());
}

TEST(ServerLife, DrainingFinishesWhatRunsAndRefusesTheRest) {
  TestServer server;
  server.gate().Hold();
  RawClient client(server.port());
  client.SendPost(kChat, ChatBody("say:finished;", "\"stream\":true"));
  server.gate().Allow(2);
  ASSERT_TRUE(Eventually([&] { return server.engine().stats().requests_running == 1; }));
  server.readiness().Set(Readiness::State::kDraining);
  std::thread drain([&] { EXPECT_TRUE(server.engine().Drain(std::chrono::seconds(20))); });
  EXPECT_EQ(StatusOf(server, "/readyz"), 503);
  EXPECT_EQ(StatusOf(server, "/livez"), 200);
  EXPECT_EQ(PostJson(server.port(), kChat, ChatBody("say:a;"), 503).at("error").at("code"),
            "draining");
  server.gate().Release();
  drain.join();
  server.front().Stop(std::chrono::seconds(5));
  client.ReceiveHead();
  const Stream stream = Stream::Read(client);
  EXPECT_TRUE(stream.done);
  EXPECT_EQ(stream.text, "finished");
}

TEST(ServerLife, WhatOutlivesTheGraceGetsAnErrorEvent) {
  TestServerOptions options;
  options.model.context_tokens = 1'000'000;
  options.limits.kv_blocks = 100'000;
  options.front.http.limits.backlog_bytes = 64 << 20;
  TestServer server(options);
  RawClient client(server.port());
  client.SendPost(kChat, ChatBody("loop:a;", "\"ignore_eos\":true,\"stream\":true"));
  ASSERT_TRUE(client.ReceiveHead());
  server.readiness().Set(Readiness::State::kDraining);
  EXPECT_FALSE(server.engine().Drain(std::chrono::milliseconds(0)));
  std::thread stopper([&] { server.front().Stop(std::chrono::seconds(5)); });
  const Stream stream = Stream::Read(client);
  stopper.join();
  EXPECT_TRUE(stream.error);
  EXPECT_FALSE(stream.done);
  EXPECT_EQ(stream.chunks.back().at("error").at("code"), "draining");
}

TEST(ServerLife, AFailedDeviceEndsAllWithErrors) {
  TestServerOptions options;
  options.fails = [](uint64_t step) { return step >= 6; };
  TestServer server(options);
  server.gate().Hold();
  RawClient client(server.port());
  client.SendPost(kChat, ChatBody("loop:a;", "\"ignore_eos\":true,\"stream\":true"));
  server.gate().Allow(2);
  ASSERT_EQ(client.ReceiveHead()->status, 200);
  server.gate().Release();
  const Stream stream = Stream::Read(client);
  EXPECT_TRUE(stream.error);
  EXPECT_FALSE(stream.done);
  EXPECT_TRUE(Eventually([&] { return server.fatal(); }));
  EXPECT_EQ(StatusOf(server, "/livez"), 503);
  EXPECT_EQ(StatusOf(server, "/readyz"), 503);
  EXPECT_EQ(Fetch(server.port(), RawClient::Post(kChat, ChatBody("say:a;"))).status, 503);
}

TEST(ServerLife, MetricsTellTheTruthAndClientsTextMakesNoSeries) {
  TestServer server;
  const auto value = [&](const std::string& name) {
    const std::string text = Fetch(server.port(), RawClient::Get("/metrics")).body;
    const size_t at = text.find("\n" + name + " ");
    return at == std::string::npos ? -1.0 : std::stod(text.substr(at + name.size() + 2));
  };
  const auto lines = [&] {
    const std::string text = Fetch(server.port(), RawClient::Get("/metrics")).body;
    return std::count(text.begin(), text.end(), '\n');
  };
  int64_t prompt = 0;
  int64_t made = 0;
  for (int i = 0; i < 10; ++i) {
    const auto answer = PostJson(server.port(), kChat, ChatBody("loop:ab;", "\"max_tokens\":7"));
    prompt += answer.at("usage").at("prompt_tokens").as_int64();
    made += answer.at("usage").at("completion_tokens").as_int64();
  }
  const std::string label = "{model_name=\"test-model\"}";
  EXPECT_TRUE(Eventually([&] {
    return value("sluice_time_to_first_token_seconds_count" + label) == 10 &&
           value("sluice_e2e_request_latency_seconds_count" + label) == 10;
  }));
  EXPECT_EQ(value("sluice_prompt_tokens_total" + label), static_cast<double>(prompt));
  EXPECT_EQ(value("sluice_generation_tokens_total" + label), static_cast<double>(made));
  EXPECT_EQ(value("sluice_inter_token_latency_seconds_count" + label),
            static_cast<double>(made - 10));
  EXPECT_TRUE(server.WaitUntilIdle());
  EXPECT_EQ(value("sluice_num_requests_running" + label), 0);
  EXPECT_EQ(value("sluice_kv_cache_usage_perc" + label), 0);
  EXPECT_EQ(
      value("sluice_request_success_total{finished_reason=\"length\",model_name=\"test-model\"}"),
      10);
  PostJson(server.port(), kChat, ChatBody("x", "\"model\":\"seen\""), 404);
  StatusOf(server, "/seen");
  const auto before = lines();
  for (int i = 0; i < 50; ++i) {
    PostJson(server.port(), kChat, ChatBody("x", "\"model\":\"m" + std::to_string(i) + "\""), 404);
    StatusOf(server, ("/path" + std::to_string(i)).c_str());
  }
  EXPECT_EQ(lines(), before);
}

}  // namespace
}  // namespace sluice::testing
