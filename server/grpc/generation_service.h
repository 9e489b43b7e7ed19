#pragma once

#include "server/grpc/generate_call.h"
#include "sluice/v1/generate.grpc.pb.h"

namespace sluice::server::rpc {

// sluice.v1.GenerationService over the registry's models. Templates and tokenising run on the
// frontend pool, never on gRPC's threads.
class GenerationService final : public wire::GenerationService::CallbackService {
 public:
  explicit GenerationService(ServiceParts parts) : parts_(std::move(parts)) {}

  grpc::ServerWriteReactor<wire::GenerateResponse>* Generate(
      grpc::CallbackServerContext* context, const wire::GenerateRequest* request) override {
    return GenerateCall::Start(&parts_, context, request);
  }
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context,
                                     const wire::TokenizeRequest* request,
                                     wire::TokenizeResponse* response) override;
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* context,
                                       const wire::DetokenizeRequest* request,
                                       wire::DetokenizeResponse* response) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context,
                                     const wire::GetModelRequest* request,
                                     wire::Model* response) override;
  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* context,
                                       const wire::ListModelsRequest* request,
                                       wire::ListModelsResponse* response) override;

 private:
  // Runs `work`, which fills in `response`, on the pool and finishes the call with what it returns.
  grpc::ServerUnaryReactor* Work(grpc::CallbackServerContext* context, const char* method,
                                 const google::protobuf::Message* response,
                                 std::function<absl::Status()> work);
  absl::Status CheckSize(const google::protobuf::Message& response) const;
  absl::Status DoTokenize(const wire::TokenizeRequest& request,
                          wire::TokenizeResponse* response) const;
  absl::Status DoDetokenize(const wire::DetokenizeRequest& request,
                            wire::DetokenizeResponse* response) const;
  void Describe(const ServedModel& model, wire::Model* out) const;

  const ServiceParts parts_;
};

}  // namespace sluice::server::rpc
