// Streams an answer over gRPC:  sluice_generate_example ADDRESS PROMPT [MAX_TOKENS [SEED]]
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "sluice/v1/generate.grpc.pb.h"

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s ADDRESS PROMPT [MAX_TOKENS [SEED]]\n", argv[0]);
    return 2;
  }
  sluice::v1::GenerateRequest request;
  auto* message = request.mutable_chat()->add_messages();
  message->set_role("user");
  message->set_content(argv[2]);
  if (argc > 3) request.set_max_tokens(std::atoi(argv[3]));
  if (argc > 4) request.set_seed(std::strtoull(argv[4], nullptr, 10));

  const auto stub = sluice::v1::GenerationService::NewStub(
      grpc::CreateChannel(argv[1], grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  const auto reader = stub->Generate(&context, request);
  sluice::v1::GenerateResponse response;
  while (reader->Read(&response)) {
    std::fputs(response.text().c_str(), stdout);
    std::fflush(stdout);
  }
  const grpc::Status status = reader->Finish();
  if (!status.ok()) {
    std::fprintf(stderr, "error %d: %s\n", status.error_code(), status.error_message().c_str());
    return 1;
  }
  std::printf("\n[%lld + %lld tokens]\n", static_cast<long long>(response.usage().prompt_tokens()),
              static_cast<long long>(response.usage().completion_tokens()));
  return 0;
}
