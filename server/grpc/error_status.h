#pragma once

#include <grpcpp/support/status.h>

#include "engine/base/status.h"

namespace sluice::server::rpc {

// The one place where statuses become gRPC's. With details as google.rpc has them: BadRequest for a
// message "field: ...", RetryInfo when `retry_after_seconds` is positive.
grpc::Status ToGrpcStatus(const absl::Status& status, int retry_after_seconds);

// "OK", "INVALID_ARGUMENT": as gRPC's documents name them.
const char* CodeName(grpc::StatusCode code);

}  // namespace sluice::server::rpc
