// Health (Check and Watch) through the daemon's life, reflection, and the server's end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "grpc/health/v1/health.grpc.pb.h"
#include "tests/server/grpc/grpc_client.h"

namespace sluice::testing {
namespace {

namespace health = ::grpc::health::v1;
using Response = health::HealthCheckResponse;
using server::Readiness;

constexpr char kService[] = "sluice.v1.GenerationService";

int Check(uint16_t port, const std::string& service) {
  const auto stub = health::Health::NewStub(Connect(port));
  health::HealthCheckRequest request;
  request.set_service(service);
  Response response;
  grpc::ClientContext context;
  const grpc::Status status = stub->Check(&context, request, &response);
  return status.ok() ? response.status() : -static_cast<int>(status.error_code());
}

class Watch {
 public:
  Watch(uint16_t port, const std::string& service) : stub_(health::Health::NewStub(Connect(port))) {
    health::HealthCheckRequest request;
    request.set_service(service);
    reader_ = stub_->Watch(&context_, request);
  }
  int Next() {
    Response response;
    return reader_->Read(&response) ? response.status() : -1;
  }
  grpc::Status End() { return reader_->Finish(); }
  void Cancel() { context_.TryCancel(); }

 private:
  std::unique_ptr<health::Health::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<Response>> reader_;
};

TEST(Health, FollowsTheDaemonsLife) {
  TestServerOptions options = WithGrpc();
  options.load = false;
  TestServer server(options);
  const uint16_t port = server.grpc_port();
  for (const char* service : {"", kService}) {
    EXPECT_EQ(Check(port, service), Response::NOT_SERVING);
  }
  EXPECT_EQ(Check(port, "other"), -grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Generate(port, ChatRequest("say:a;")).status.error_code(),
            grpc::StatusCode::UNAVAILABLE);

  Watch whole(port, "");
  Watch one(port, kService);
  Watch other(port, "other");
  EXPECT_EQ(whole.Next(), Response::NOT_SERVING);
  EXPECT_EQ(one.Next(), Response::NOT_SERVING);
  EXPECT_EQ(other.Next(), Response::SERVICE_UNKNOWN);
  server.Load();
  EXPECT_EQ(whole.Next(), Response::SERVING);
  EXPECT_EQ(one.Next(), Response::SERVING);
  EXPECT_EQ(Check(port, kService), Response::SERVING);
  EXPECT_TRUE(Generate(port, ChatRequest("say:a;")).status.ok());

  server.readiness().Set(Readiness::State::kDraining);
  EXPECT_EQ(whole.Next(), Response::NOT_SERVING);
  EXPECT_EQ(one.Next(), Response::NOT_SERVING);
  EXPECT_EQ(Check(port, ""), Response::NOT_SERVING);
  const Answers refused = Generate(port, ChatRequest("say:a;"));
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(refused.trailing.find("retry-after")->second, "1");
  other.Cancel();
  EXPECT_EQ(other.End().error_code(), grpc::StatusCode::CANCELLED);
}

TEST(Health, AFailedEngineIsNotServing) {
  TestServerOptions options = WithGrpc();
  options.fails = [](uint64_t step) { return step == 3; };
  TestServer server(options);
  Watch watch(server.grpc_port(), "");
  EXPECT_EQ(watch.Next(), Response::SERVING);
  Generate(server.grpc_port(), ChatRequest("loop:a;"));
  EXPECT_EQ(watch.Next(), Response::NOT_SERVING);
}

// Watches do not hold up the end, and learn of it.
TEST(End, WatchesAndIdleConnectionsEndAtOnce) {
  TestServer server(WithGrpc());
  Watch watch(server.grpc_port(), "");
  EXPECT_EQ(watch.Next(), Response::SERVING);
  const auto begin = std::chrono::steady_clock::now();
  std::thread stop([&] { server.front().Stop(std::chrono::seconds(60)); });
  EXPECT_EQ(watch.Next(), Response::NOT_SERVING);
  EXPECT_EQ(watch.Next(), -1);
  EXPECT_EQ(watch.End().error_code(), grpc::StatusCode::UNAVAILABLE);
  stop.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

// A stream of 1,500 tokens at a millisecond each, in its midst.
struct RunningStream {
  static TestServerOptions Options() {
    TestServerOptions options = WithGrpc();
    options.fails = [](uint64_t) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return false;
    };
    return options;
  }
  explicit RunningStream(TestServer& server) {
    wire::GenerateRequest request = ChatRequest("loop:xyz;");
    request.set_max_tokens(1500);
    client =
        std::thread([this, request, port = server.grpc_port()] { got = Generate(port, request); });
    EXPECT_TRUE(Eventually([&] { return server.engine().stats().requests_running == 1; }));
    server.readiness().Set(Readiness::State::kDraining);
  }

  std::thread client;
  Answers got;
};

// As the daemon ends: what runs may finish, then the port closes.
TEST(End, StreamsFinishWithinTheGrace) {
  TestServer server(RunningStream::Options());
  RunningStream stream(server);
  EXPECT_TRUE(server.engine().Drain(std::chrono::seconds(60)));
  server.front().Stop(std::chrono::seconds(20));
  stream.client.join();
  EXPECT_TRUE(stream.got.status.ok()) << stream.got.status.error_message();
  EXPECT_EQ(stream.got.text().size(), 1500u);
}

// What the grace cuts off is told so.
TEST(End, StreamsThatTheGraceCutsOffAreUnavailable) {
  TestServer server(RunningStream::Options());
  RunningStream stream(server);
  EXPECT_FALSE(server.engine().Drain(std::chrono::milliseconds(10)));
  server.front().Stop(std::chrono::seconds(20));
  stream.client.join();
  EXPECT_EQ(stream.got.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(stream.got.status.error_message(), ::testing::HasSubstr("shutting down"));
}

// A connection that has become old ends, and a stream on it goes on to its end.
TEST(End, AnOldConnectionsStreamGoesOn) {
  TestServerOptions options = RunningStream::Options();
  options.front.grpc.connection_age_max = std::chrono::milliseconds(200);
  TestServer server(options);
  const std::shared_ptr<grpc::Channel> channel = Connect(server.grpc_port());
  const auto stub = wire::GenerationService::NewStub(channel);
  grpc::ClientContext context;
  wire::GenerateRequest request = ChatRequest("loop:xyz;");
  request.set_max_tokens(1500);
  const auto reader = stub->Generate(&context, request);
  wire::GenerateResponse response;
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_TRUE(Eventually([&] { return channel->GetState(false) != GRPC_CHANNEL_READY; }));
  EXPECT_EQ(server.engine().stats().requests_running, 1);
  std::string text = response.text();
  while (reader->Read(&response)) text += response.text();
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(text.size(), 1500u);
}

TEST(End, ATakenPortIsAnError) {
  TestServer server(WithGrpc());
  server::FrontOptions options;
  options.http.port = 0;
  options.grpc.port = server.grpc_port();
  server::ModelRegistry registry;
  registry.Add(MakeChatModel());
  Readiness readiness;
  server::Front front(options, &registry, &readiness);
  const absl::Status status = front.Listen();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(engine::Message(status),
              ::testing::HasSubstr(":" + std::to_string(server.grpc_port())));
}

}  // namespace
}  // namespace sluice::testing
