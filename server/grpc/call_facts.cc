#include "server/grpc/call_facts.h"

#include <utility>

#include "engine/base/log.h"
#include "server/base/leading_field.h"
#include "server/base/request_id.h"
#include "server/grpc/error_status.h"
#include "sluice/v1/generate.grpc.pb.h"

namespace sluice::server::rpc {

namespace wire = ::sluice::v1;

CallFacts ReceiveCall(grpc::CallbackServerContext* context, std::string method) {
  CallFacts facts;
  facts.method = std::move(method);
  facts.arrival = std::chrono::steady_clock::now();
  facts.id = SoundRequestId(MetadataOf(*context, "x-request-id"));
  context->AddInitialMetadata("x-request-id", facts.id);
  return facts;
}

std::string_view MetadataOf(const grpc::CallbackServerContext& context, const std::string& name) {
  if (name.empty()) return {};
  const auto& metadata = context.client_metadata();
  const auto entry = metadata.find(name);
  if (entry == metadata.end()) return {};
  return {entry->second.data(), entry->second.size()};
}

grpc::Status EndCall(const CallFacts& facts, const CallObserver& observer,
                     grpc::ServerContextBase* context, const CallEnd& end) {
  if (end.retry_after_seconds > 0) {
    context->AddTrailingMetadata("retry-after", std::to_string(end.retry_after_seconds));
  }
  grpc::Status told = ToGrpcStatus(end.status, end.retry_after_seconds);
  std::string_view reason = end.reason;
  if (reason.empty() && absl::IsResourceExhausted(end.status)) reason = "queue_full";
  if (reason.empty() && absl::IsUnavailable(end.status)) reason = "unavailable";
  if (observer) {
    observer(std::string(wire::GenerationService::service_full_name()) + "/" + facts.method,
             told.error_code(), reason);
  }
  return told;
}

void LogRefused(const CallFacts& facts, const absl::Status& status) {
  const double ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - facts.arrival)
          .count();
  // Only the field's name: messages may quote the caller's text, which does not belong in a log.
  SLUICE_LOG_EVENT(kInfo, "refused")
      .Word("rpc", facts.method)
      .Word("http_id", facts.id)
      .Word("status", CodeName(ToGrpcStatus(status, 0).error_code()))
      .Word("param", LeadingField(engine::Message(status)))
      .Number("total_ms", ms, 1);
}

}  // namespace sluice::server::rpc
