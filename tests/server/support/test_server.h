#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "engine/engine.h"
#include "server/front/front.h"
#include "tests/server/support/chat_model.h"

namespace sluice::testing {

struct TestServerOptions {
  ChatModelOptions model;
  engine::EngineOptions engine;
  engine::ExecutorLimits limits{.slots = 64,
                                .step_tokens = 256,
                                .kv_blocks = 4096,
                                .block_size = 16,
                                .context_tokens = 2048,
                                .vocabulary = kFirstWord + 6};
  server::FrontOptions front;
  std::function<bool(uint64_t step)> fails;
  bool load = true;   // false: stays "loading" until Load
  bool grpc = false;  // with a gRPC port
};

// The server as the daemon puts it together, over a scripted executor, on a free port.
class TestServer {
 public:
  explicit TestServer(TestServerOptions options = {});
  ~TestServer();

  void Load();
  uint16_t port() const { return front_->port(); }
  uint16_t grpc_port() const { return front_->grpc_port(); }
  engine::Engine& engine() { return *engine_; }
  server::Front& front() { return *front_; }
  server::Readiness& readiness() { return readiness_; }
  server::ServedModel& model() { return *model_; }
  StepGate& gate() { return gate_; }
  bool fatal() const { return fatal_; }

  // Waits, at most ten seconds, until nothing runs or waits and no block is used.
  bool WaitUntilIdle();

 private:
  TestServerOptions options_;
  StepGate gate_;
  std::atomic<bool> fatal_{false};
  server::Readiness readiness_;
  server::ModelRegistry registry_;
  std::shared_ptr<server::ServedModel> model_;
  std::unique_ptr<server::Front> front_;
  std::unique_ptr<engine::Engine> engine_;
};

// Polls `condition` for at most ten seconds.
bool Eventually(const std::function<bool()>& condition);

}  // namespace sluice::testing
