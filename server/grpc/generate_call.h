#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <chrono>
#include <cstddef>
#include <memory>

#include "engine/engine.h"
#include "server/admission/in_flight.h"
#include "server/base/frontend_pool.h"
#include "server/grpc/answer_stream.h"
#include "server/grpc/call_facts.h"
#include "server/grpc/request_fields.h"
#include "server/models/model_registry.h"
#include "server/models/readiness.h"

namespace sluice::server::rpc {

// What the calls work with. All outlives the server.
struct ServiceParts {
  const ModelRegistry* registry = nullptr;
  const Readiness* readiness = nullptr;
  FrontendPool* pool = nullptr;
  std::shared_ptr<InFlight> in_flight;
  RequestCaps caps;
  size_t backlog_bytes = 256 << 10;
  size_t message_bytes_max = 4 << 20;  // of one answer to a call that has no stream
  CallObserver on_call;                // may be null
};

// One call of Generate: gRPC's side of an AnswerStream. Made when the call comes in, deletes itself
// when gRPC is done with it.
class GenerateCall final : public grpc::ServerWriteReactor<wire::GenerateResponse>,
                           private StreamWire {
 public:
  // `context` and `request` are gRPC's, and stay until OnDone.
  static GenerateCall* Start(const ServiceParts* parts, grpc::CallbackServerContext* context,
                             const wire::GenerateRequest* request);

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override { delete this; }

 private:
  // What outlives the call: the engine may end after the client.
  struct Record;

  GenerateCall(const ServiceParts* parts, grpc::CallbackServerContext* context,
               const wire::GenerateRequest* request);

  // On the frontend pool.
  void Prepare(const std::shared_ptr<AnswerStream>& stream);
  absl::Status Submit(const std::shared_ptr<AnswerStream>& stream);
  absl::StatusOr<std::vector<int32_t>> PromptIds(const GenerateFields& fields) const;
  void Refuse(const std::shared_ptr<AnswerStream>& stream, const absl::Status& status);

  void Write(AnswerDelta delta, int64_t generated) override;
  void Finish(const absl::Status& status) override;
  void Abandon() override { context_->TryCancel(); }

  const ServiceParts* const parts_;
  grpc::CallbackServerContext* const context_;
  const wire::GenerateRequest* const request_;
  const std::chrono::steady_clock::time_point deadline_;  // max(): none
  const std::shared_ptr<Record> record_;
  std::shared_ptr<ServedModel> model_;
  std::string reason_;  // why it is turned away, see CallObserver
  // Set before the request is submitted, given to the client with the first response.
  wire::Start start_;
  bool started_ = false;
  wire::GenerateResponse response_;  // being written
  // Callbacks hold it while they use it: with Finish, OnDone may come at any time.
  std::shared_ptr<AnswerStream> stream_;
};

}  // namespace sluice::server::rpc
