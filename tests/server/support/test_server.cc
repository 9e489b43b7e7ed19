#include "tests/server/support/test_server.h"

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <thread>
#include <utility>

namespace sluice::testing {

bool Eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

TestServer::TestServer(TestServerOptions options) : options_(std::move(options)) {
  options_.limits.context_tokens = options_.model.context_tokens;
  options_.front.http.port = 0;
  options_.front.grpc.port = options_.grpc ? 0 : -1;
  options_.front.version = "test";
  model_ = MakeChatModel(options_.model);
  registry_.Add(model_);
  readiness_.Progress("weights", 0.5);
  front_ = std::make_unique<server::Front>(options_.front, &registry_, &readiness_);
  if (const absl::Status status = front_->Listen(); !status.ok()) {
    std::cerr << status << "\n";
    std::abort();
  }
  if (options_.load) Load();
}

void TestServer::Load() {
  ScriptedExecutor::Options executor;
  executor.limits = options_.limits;
  executor.next = NextOfScript;
  executor.gate = &gate_;
  executor.fails = options_.fails;
  engine::Engine::Parts parts;
  parts.tokenizer = model_->facts.tokenizer;
  parts.executor = std::make_unique<ScriptedExecutor>(std::move(executor));
  parts.observer = front_->metrics()->ObserverOf(model_->facts.name);
  parts.on_fatal = [this](const absl::Status&) {
    readiness_.Set(server::Readiness::State::kFailed);
    fatal_ = true;
  };
  // The scripted executor goes by the tokens that plans name: all of a prompt's must be among them.
  options_.engine.share_prefixes = false;
  engine_ = std::make_unique<engine::Engine>(std::move(parts), options_.engine);
  model_->engine.store(engine_.get());
  readiness_.Set(server::Readiness::State::kReady);
}

TestServer::~TestServer() {
  gate_.Release();
  front_->Stop(std::chrono::milliseconds(0));
  model_->engine.store(nullptr);
  engine_.reset();
}

bool TestServer::WaitUntilIdle() {
  return Eventually([this] {
    const engine::EngineStats stats = engine_->stats();
    return stats.requests_running == 0 && stats.requests_waiting == 0 && stats.kv_blocks_used == 0;
  });
}

}  // namespace sluice::testing
