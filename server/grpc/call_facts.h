#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace sluice::server::rpc {

// What the log says of a call.
struct CallFacts {
  std::string method;  // as "Generate"
  std::string id;      // x-request-id: the client's when it is sound, else made here
  std::chrono::steady_clock::time_point arrival;
};

struct CallEnd {
  absl::Status status;
  int retry_after_seconds = 0;
  std::string reason;  // see CallObserver; empty: the usual one of the status
};

// Reads the facts of a call that has just come, and promises its id to the client.
CallFacts ReceiveCall(grpc::CallbackServerContext* context, std::string method);

// A metadata entry of the call; empty when there is none, or for an empty name.
std::string_view MetadataOf(const grpc::CallbackServerContext& context, const std::string& name);

// One line, for a call that was refused before the engine had it. No text of the caller's.
void LogRefused(const CallFacts& facts, const absl::Status& status);

// Told once a call. `method`: as "sluice.v1.GenerationService/Generate". `code`: of gRPC's status.
// `reason`: why it was turned away for load or state, in the words of the HTTP API's codes; else
// empty. Any thread; must not block.
using CallObserver =
    std::function<void(std::string_view method, int code, std::string_view reason)>;

// Tells the client how its call ended: the status for Finish, which must follow, and the trailing
// metadata entry "retry-after" where one may try again; tells the observer.
grpc::Status EndCall(const CallFacts& facts, const CallObserver& observer,
                     grpc::ServerContextBase* context, const CallEnd& end);

}  // namespace sluice::server::rpc
