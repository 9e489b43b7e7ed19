#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sluice/v1/generate.grpc.pb.h"
#include "tests/server/support/test_server.h"

namespace sluice::testing {

namespace wire = ::sluice::v1;

// A test server with a gRPC port.
inline TestServerOptions WithGrpc() {
  TestServerOptions options;
  options.grpc = true;
  return options;
}

// A channel of its own connection: equal channels would share one.
inline std::shared_ptr<grpc::Channel> Connect(uint16_t port,
                                              grpc::ChannelArguments arguments = {}) {
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(port),
                                   grpc::InsecureChannelCredentials(), arguments);
}

inline std::unique_ptr<wire::GenerationService::Stub> StubOf(uint16_t port) {
  return wire::GenerationService::NewStub(Connect(port));
}

inline wire::GenerateRequest ChatRequest(const std::string& content) {
  wire::GenerateRequest request;
  auto* message = request.mutable_chat()->add_messages();
  message->set_role("user");
  message->set_content(content);
  return request;
}

// A whole stream, taken apart.
struct Answers {
  struct Answer {
    std::string text;
    std::vector<int32_t> token_ids;
    wire::FinishReason finish = wire::FINISH_REASON_UNSPECIFIED;
    wire::GenerateResponse last;
  };
  grpc::Status status;
  std::map<int32_t, Answer> answers;
  wire::Start start;
  wire::Usage usage;
  int responses = 0;
  std::multimap<std::string, std::string> initial;
  std::multimap<std::string, std::string> trailing;

  const std::string& text() const { return answers.at(0).text; }
};

inline std::multimap<std::string, std::string> Copy(
    const std::multimap<grpc::string_ref, grpc::string_ref>& metadata) {
  std::multimap<std::string, std::string> out;
  for (const auto& [key, value] : metadata) {
    out.emplace(std::string(key.data(), key.size()), std::string(value.data(), value.size()));
  }
  return out;
}

// What `context` asks for besides (deadline, metadata) is the caller's to set.
inline Answers Generate(wire::GenerationService::Stub& stub, const wire::GenerateRequest& request,
                        grpc::ClientContext* context) {
  Answers out;
  const auto reader = stub.Generate(context, request);
  wire::GenerateResponse response;
  while (reader->Read(&response)) {
    if (out.responses++ == 0) out.start = response.start();
    Answers::Answer& answer = out.answers[response.index()];
    answer.text += response.text();
    answer.token_ids.insert(answer.token_ids.end(), response.token_ids().begin(),
                            response.token_ids().end());
    answer.finish = response.finish_reason();
    answer.last = response;
    if (response.has_usage()) out.usage = response.usage();
  }
  out.status = reader->Finish();
  out.initial = Copy(context->GetServerInitialMetadata());
  out.trailing = Copy(context->GetServerTrailingMetadata());
  return out;
}

inline Answers Generate(uint16_t port, const wire::GenerateRequest& request) {
  grpc::ClientContext context;
  return Generate(*StubOf(port), request, &context);
}

}  // namespace sluice::testing
