#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "tests/support/simulated_worker.h"
#include "tests/support/small_tokenizer.h"

namespace sluice::testing {

// Keeps all that comes for one request, and says when its answers have ended.
class RecordingSink : public engine::OutputSink {
 public:
  struct Answer {
    std::string text;
    std::vector<int32_t> tokens;
    std::vector<engine::OutputChunk> chunks;
    int ends = 0;

    const engine::OutputChunk& last() const { return chunks.back(); }
  };
  explicit RecordingSink(int32_t answers) : answers_(static_cast<size_t>(answers)) {}

  void OnChunk(engine::OutputChunk chunk) override {
    std::lock_guard lock(mu_);
    Answer& answer = answers_[static_cast<size_t>(chunk.choice)];
    answer.text += chunk.text;
    answer.tokens.insert(answer.tokens.end(), chunk.token_ids.begin(), chunk.token_ids.end());
    if (chunk.finish != engine::FinishReason::kNone) ++answer.ends;
    answer.chunks.push_back(std::move(chunk));
    ++chunks_;
    changed_.notify_all();
  }

  // Until each answer has ended, and that long at most: then the test fails by what it finds.
  const std::vector<Answer>& Wait() {
    std::unique_lock lock(mu_);
    changed_.wait_for(lock, std::chrono::seconds(60), [this] { return AllEnded(); });
    return answers_;
  }
  // Until `count` chunks have come, or all that ever will.
  void WaitForChunks(int count) {
    std::unique_lock lock(mu_);
    changed_.wait_for(lock, std::chrono::seconds(60),
                      [&] { return chunks_ >= count || AllEnded(); });
  }

 private:
  bool AllEnded() const {
    return std::all_of(answers_.begin(), answers_.end(),
                       [](const Answer& answer) { return answer.ends > 0; });
  }

  std::mutex mu_;
  std::condition_variable changed_;
  std::vector<Answer> answers_;
  int chunks_ = 0;
};

inline engine::ExecutorLimits SmallLimits() {
  engine::ExecutorLimits limits;
  limits.slots = 32;
  limits.step_tokens = 2048;
  limits.kv_blocks = 4096;
  limits.block_size = 4;
  limits.context_tokens = 256;
  limits.vocabulary = kSmallVocabulary;
  return limits;
}

inline std::shared_ptr<engine::GenerateRequest> MakeRequest(std::string id,
                                                            std::vector<int32_t> prompt,
                                                            int32_t max_tokens) {
  auto request = std::make_shared<engine::GenerateRequest>();
  request->id = std::move(id);
  request->prompt = std::move(prompt);
  request->stop.max_tokens = max_tokens;
  request->arrival = engine::Clock::now();
  return request;
}

// Token ids of a text, one a byte.
inline std::vector<int32_t> Bytes(const std::string& text) {
  std::vector<int32_t> ids;
  for (const char c : text) ids.push_back(static_cast<uint8_t>(c));
  return ids;
}

// An engine on a simulated worker, which stays in reach.
struct SimulatedEngine {
  explicit SimulatedEngine(SimulatedWorker::Options worker_options = DefaultWorker(),
                           engine::EngineOptions options = {},
                           engine::EngineObserver* observer = nullptr,
                           std::function<void(const absl::Status&)> on_fatal = nullptr) {
    auto owned = std::make_unique<SimulatedWorker>(std::move(worker_options));
    worker = owned.get();
    engine::Engine::Parts parts;
    parts.tokenizer = SmallTokenizer();
    parts.executor = std::move(owned);
    parts.observer = observer;
    parts.on_fatal = std::move(on_fatal);
    engine = std::make_unique<engine::Engine>(std::move(parts), options);
  }

  static SimulatedWorker::Options DefaultWorker() {
    SimulatedWorker::Options options;
    options.limits = SmallLimits();
    return options;
  }

  SimulatedWorker* worker = nullptr;  // the engine's
  std::unique_ptr<engine::Engine> engine;
};

}  // namespace sluice::testing
