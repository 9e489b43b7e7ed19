// What goes wrong, with its code, its words and what helps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "server/grpc/error_status.h"
#include "sluice/v1/error_details.pb.h"
#include "tests/server/grpc/grpc_client.h"
#include "tests/server/support/json_client.h"

namespace sluice::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(ErrorStatus, CodesAndDetails) {
  const grpc::Status bad =
      server::rpc::ToGrpcStatus(engine::InvalidArgument("stop[2]: must not be empty"), 0);
  EXPECT_EQ(bad.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  wire::details::Status rich;
  ASSERT_TRUE(rich.ParseFromString(bad.error_details()));
  EXPECT_EQ(rich.code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(rich.details(0).type_url(), "type.googleapis.com/google.rpc.BadRequest");
  wire::details::BadRequest request;
  ASSERT_TRUE(request.ParseFromString(rich.details(0).value()));
  EXPECT_EQ(request.field_violations(0).field(), "stop[2]");
  EXPECT_EQ(request.field_violations(0).description(), "must not be empty");

  const grpc::Status full = server::rpc::ToGrpcStatus(engine::ResourceExhausted("full"), 7);
  EXPECT_EQ(full.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  ASSERT_TRUE(rich.ParseFromString(full.error_details()));
  EXPECT_EQ(rich.details(0).type_url(), "type.googleapis.com/google.rpc.RetryInfo");
  wire::details::RetryInfo retry;
  ASSERT_TRUE(retry.ParseFromString(rich.details(0).value()));
  EXPECT_EQ(retry.retry_delay().seconds(), 7);

  using server::rpc::ToGrpcStatus;
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus(), 0).ok());
  EXPECT_EQ(ToGrpcStatus(engine::OutOfRange("x"), 0).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ToGrpcStatus(engine::Unavailable("x"), 1).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ToGrpcStatus(engine::Internal("x"), 0).error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(ToGrpcStatus(absl::DataLossError("x"), 0).error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_STREQ(server::rpc::CodeName(grpc::StatusCode::UNAUTHENTICATED), "UNAUTHENTICATED");
}

// Field, value and limit, in the same words as over HTTP.
TEST(Errors, NameTheFieldAsHttpDoes) {
  TestServer server(WithGrpc());
  struct Case {
    const char* http;
    std::function<void(wire::GenerateRequest*)> grpc;
    const char* message;
  };
  const Case cases[] = {
      {R"("temperature":3)", [](auto* r) { r->set_temperature(3); }, "temperature: 3 "},
      {R"("top_p":0)", [](auto* r) { r->set_top_p(0); }, "top_p: 0 "},
      {R"("top_k":-2)", [](auto* r) { r->set_top_k(-2); }, "top_k: -2 is not in [-1, "},
      {R"("n":9)", [](auto* r) { r->set_n(9); }, "n: 9 is not in [1, 8]"},
      {R"("n":0)", [](auto* r) { r->set_n(0); }, "n: 0 is not in [1, 8]"},
      {R"("max_tokens":0)", [](auto* r) { r->set_max_tokens(0); }, "max_tokens: 0 "},
      {R"("min_tokens":-1)", [](auto* r) { r->set_min_tokens(-1); }, "min_tokens: -1 "},
      {R"("stop":[""])", [](auto* r) { r->add_stop(""); }, "stop"},
      {R"("stop_token_ids":[99999])", [](auto* r) { r->add_stop_token_ids(99999); },
       "stop_token_ids"},
      {R"("logit_bias":{"3":101})", [](auto* r) { (*r->mutable_logit_bias())[3] = 101; },
       "logit_bias: 101 is not in [-100, 100]"},
      {R"("model":"other")", [](auto* r) { r->set_model("other"); },
       "model: there is no \"other\" here; served: test-model"},
      {R"("ttft_slo_ms":-1)", [](auto* r) { r->set_ttft_slo_ms(-1); },
       "ttft_slo_ms: -1 is not in [0, 3600000]"},
      {R"("tpot_slo_ms":3600001)", [](auto* r) { r->set_tpot_slo_ms(3600001); },
       "tpot_slo_ms: 3600001 is not in [0, 3600000]"},
      {R"("continue_final_message":true)",
       [](auto* r) { r->mutable_chat()->set_continue_final_message(true); },
       "continue_final_message: "},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.http);
    wire::GenerateRequest request = ChatRequest("hi");
    each.grpc(&request);
    const Answers got = Generate(server.grpc_port(), request);
    EXPECT_EQ(got.status.error_code(), std::string(each.http).find("model\"") == 1
                                           ? grpc::StatusCode::NOT_FOUND
                                           : grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(got.status.error_message(), StartsWith(each.message));
    EXPECT_EQ(got.trailing.count("retry-after"), 0u);
    const RawResponse http =
        Fetch(server.port(), RawClient::Post("/v1/chat/completions", ChatBody("hi", each.http)));
    EXPECT_EQ(Parsed(http.body).at("error").at("message").as_string(), got.status.error_message());
  }
}

TEST(Errors, Prompts) {
  TestServer server(WithGrpc());
  const auto refused = [&](const wire::GenerateRequest& request) {
    const Answers got = Generate(server.grpc_port(), request);
    EXPECT_EQ(got.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    return got.status.error_message();
  };
  wire::GenerateRequest none;
  EXPECT_THAT(refused(none), StartsWith("prompt: is missing"));
  wire::GenerateRequest empty;
  empty.set_text("");
  EXPECT_EQ(refused(empty), "text: it is empty");
  wire::GenerateRequest ids;
  ids.mutable_token_ids()->add_ids(1);
  ids.mutable_token_ids()->add_ids(-1);
  EXPECT_THAT(refused(ids), StartsWith("token_ids[1]: token -1 is not in the vocabulary of "));
  wire::GenerateRequest large;
  large.set_text(std::string(3000, 'x'));
  EXPECT_THAT(refused(large), HasSubstr("3000 tokens, but the context holds 2048"));
  wire::GenerateRequest no_messages;
  no_messages.mutable_chat();
  EXPECT_EQ(refused(no_messages), "messages: it is empty");
  wire::GenerateRequest role = ChatRequest("x");
  role.mutable_chat()->mutable_messages(0)->set_role("boss");
  EXPECT_THAT(refused(role), StartsWith("messages[0].role: \"boss\" is not one of "));
  wire::GenerateRequest content = ChatRequest("x");
  content.mutable_chat()->mutable_messages(0)->clear_content();
  EXPECT_EQ(refused(content), "messages[0].content: is missing");
  EXPECT_THAT(refused(ChatRequest("refuse me")), HasSubstr("the chat template refuses them"));
  wire::GenerateRequest reserved = ChatRequest("x");
  (*reserved.mutable_chat()->mutable_chat_template_kwargs()->mutable_fields())["bos_token"]
      .set_string_value("y");
  EXPECT_THAT(refused(reserved), StartsWith("chat_template_kwargs: \"bos_token\""));
  EXPECT_TRUE(server.WaitUntilIdle());
}

TEST(Errors, TargetsInMetadata) {
  TestServer server(WithGrpc());
  const auto stub = StubOf(server.grpc_port());
  for (const std::string name : {"x-llm-d-slo-ttft-ms", "x-llm-d-slo-tpot-ms"}) {
    grpc::ClientContext context;
    context.AddMetadata(name, "soon");
    const Answers got = Generate(*stub, ChatRequest("say:no;"), &context);
    EXPECT_EQ(got.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(got.status.error_message(), StartsWith(name + ": \"soon\" "));
    grpc::ClientContext sound;
    sound.AddMetadata(name, "250");
    EXPECT_EQ(Generate(*stub, ChatRequest("say:yes;"), &sound).text(), "yes");
  }
}

TEST(Errors, AMessageThatIsTooLargeCostsOnlyItsSender) {
  TestServerOptions options = WithGrpc();
  options.front.grpc.message_bytes_max = 64 << 10;
  TestServer server(options);
  const auto stub = StubOf(server.grpc_port());
  grpc::ClientContext context;
  const Answers got = Generate(*stub, ChatRequest(std::string(100'000, 'x')), &context);
  EXPECT_EQ(got.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(got.status.error_message(), HasSubstr("65536"));
  // The connection lives on.
  grpc::ClientContext again;
  EXPECT_EQ(Generate(*stub, ChatRequest("say:well;"), &again).text(), "well");
}

TEST(Errors, AFullQueueSaysWhenToComeBack) {
  TestServerOptions options = WithGrpc();
  options.engine.running_max = 1;
  options.engine.waiting_max = 1;
  options.model.waiting_max = 1;
  TestServer server(options);
  server.gate().Hold();
  const auto stub = StubOf(server.grpc_port());
  wire::GenerateRequest endless = ChatRequest("loop:abc;");
  endless.set_max_tokens(100);
  std::vector<std::thread> busy;
  for (int i = 0; i < 2; ++i) {
    busy.emplace_back([&] {
      grpc::ClientContext context;
      EXPECT_TRUE(Generate(*stub, endless, &context).status.ok());
    });
    ASSERT_TRUE(Eventually([&] {
      server.gate().Allow(1);
      const engine::EngineStats stats = server.engine().stats();
      return stats.requests_running + stats.requests_waiting == i + 1;
    }));
  }
  grpc::ClientContext context;
  const Answers got = Generate(*stub, endless, &context);
  EXPECT_EQ(got.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  ASSERT_EQ(got.trailing.count("retry-after"), 1u);
  EXPECT_GE(std::stoi(got.trailing.find("retry-after")->second), 1);
  EXPECT_THAT(got.status.error_details(), HasSubstr("google.rpc.RetryInfo"));
  server.gate().Release();
  for (std::thread& thread : busy) thread.join();
}

TEST(Errors, AFaultOfTheEngineIsInternalAndCostsOneRequest) {
  TestServer server(WithGrpc());
  const Answers got = Generate(server.grpc_port(), ChatRequest("nan:3;"));
  EXPECT_EQ(got.status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(got.text(), "nnn");
  EXPECT_EQ(Generate(server.grpc_port(), ChatRequest("say:well;")).text(), "well");
}

TEST(Errors, ALostDeviceEndsEveryStream) {
  TestServerOptions options = WithGrpc();
  options.fails = [](uint64_t step) { return step == 5; };
  TestServer server(options);
  wire::GenerateRequest request = ChatRequest("loop:abc;");
  const Answers got = Generate(server.grpc_port(), request);
  EXPECT_EQ(got.status.error_code(), grpc::StatusCode::INTERNAL);
  const Answers next = Generate(server.grpc_port(), request);
  EXPECT_EQ(next.status.error_code(), grpc::StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace sluice::testing
