#include "server/grpc/error_status.h"

#include <string>

#include "server/base/leading_field.h"
#include "sluice/v1/error_details.pb.h"

namespace sluice::server::rpc {
namespace {

namespace details = ::sluice::v1::details;

grpc::StatusCode CodeOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return grpc::StatusCode::OK;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:  // a prompt that does not fit: the caller's to mend
      return grpc::StatusCode::INVALID_ARGUMENT;
    case absl::StatusCode::kNotFound:
      return grpc::StatusCode::NOT_FOUND;
    case absl::StatusCode::kResourceExhausted:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case absl::StatusCode::kUnavailable:
      return grpc::StatusCode::UNAVAILABLE;
    case absl::StatusCode::kUnimplemented:
      return grpc::StatusCode::UNIMPLEMENTED;
    case absl::StatusCode::kDeadlineExceeded:
      return grpc::StatusCode::DEADLINE_EXCEEDED;
    case absl::StatusCode::kCancelled:
      return grpc::StatusCode::CANCELLED;
    case absl::StatusCode::kAborted:  // a reader that fell too far behind
      return grpc::StatusCode::ABORTED;
    case absl::StatusCode::kUnauthenticated:
      return grpc::StatusCode::UNAUTHENTICATED;
    case absl::StatusCode::kPermissionDenied:
      return grpc::StatusCode::PERMISSION_DENIED;
    default:
      return grpc::StatusCode::INTERNAL;
  }
}

// An Any under the name that libraries know.
template <class Message>
void Pack(const char* name, const Message& message, details::Status* out) {
  google::protobuf::Any* any = out->add_details();
  any->set_type_url(std::string("type.googleapis.com/google.rpc.") + name);
  any->set_value(message.SerializeAsString());
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status, int retry_after_seconds) {
  if (status.ok()) return grpc::Status::OK;
  const grpc::StatusCode code = CodeOf(status.code());
  const std::string message = engine::Message(status);
  details::Status rich;
  rich.set_code(code);
  rich.set_message(message);
  if (retry_after_seconds > 0) {
    details::RetryInfo retry;
    retry.mutable_retry_delay()->set_seconds(retry_after_seconds);
    Pack("RetryInfo", retry, &rich);
  }
  const std::string field = LeadingField(message);
  if (code == grpc::StatusCode::INVALID_ARGUMENT && !field.empty()) {
    details::BadRequest bad;
    auto* violation = bad.add_field_violations();
    violation->set_field(field);
    violation->set_description(message.substr(field.size() + 2));
    Pack("BadRequest", bad, &rich);
  }
  if (rich.details().empty()) return grpc::Status(code, message);
  return grpc::Status(code, message, rich.SerializeAsString());
}

const char* CodeName(grpc::StatusCode code) {
  static constexpr const char* kNames[] = {"OK",
                                           "CANCELLED",
                                           "UNKNOWN",
                                           "INVALID_ARGUMENT",
                                           "DEADLINE_EXCEEDED",
                                           "NOT_FOUND",
                                           "ALREADY_EXISTS",
                                           "PERMISSION_DENIED",
                                           "RESOURCE_EXHAUSTED",
                                           "FAILED_PRECONDITION",
                                           "ABORTED",
                                           "OUT_OF_RANGE",
                                           "UNIMPLEMENTED",
                                           "INTERNAL",
                                           "UNAVAILABLE",
                                           "DATA_LOSS",
                                           "UNAUTHENTICATED"};
  return code >= 0 && code <= 16 ? kNames[code] : "UNKNOWN";
}

}  // namespace sluice::server::rpc
