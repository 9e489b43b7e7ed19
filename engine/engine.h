#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "engine/base/status.h"
#include "engine/plan/step_executor.h"
#include "engine/request.h"
#include "engine/state.h"
#include "engine/stats.h"
#include "engine/tenant.h"
#include "engine/tokenizer/tokenizer.h"

namespace sluice::engine {

// Limits of the planning half; what the executor can hold bounds them further.
struct EngineOptions {
  // Sequences that hold a slot at once; at most the executor's slots, and at most step_tokens, so
  // that each can go on by a token in every step.
  int32_t running_max = 64;
  int32_t step_tokens = 256;  // token budget of one step; at most the executor's step_tokens
  // Sequences beyond running_max that may be in the engine, from Submit to the final chunk; one
  // more is refused with ResourceExhausted.
  int32_t waiting_max = 1024;
  // A request that would wait longer than this for its first step, by what is before it and how
  // fast that is served, is refused with ResourceExhausted; so is one whose prompt would not be
  // computed by its deadline. 0: no limit.
  std::chrono::milliseconds wait_max{0};
  bool share_prefixes = true;  // keep what is computed for requests that begin alike
  int32_t prefills_max = 8;    // prompts that are partly computed at once
  // Between two tokens of an answer: what steps should keep to. 0: no target.
  std::chrono::milliseconds inter_token_target{0};
  int32_t prefill_tokens_min = 4;  // that a step spends on prompts, whatever that target
  // From a request's arrival to its first token: whose time runs out is served first. 0: no target.
  std::chrono::milliseconds first_token_target{0};
  int32_t steps_in_flight = 1;  // 2: a step is planned while the one before it runs
  // A step that takes longer means that the device is lost: all requests end with an error.
  std::chrono::milliseconds step_timeout{120'000};
  // Bytes of what is kept of the scheduler's doings, and the file that gets it when the executor
  // fails or a step takes longer than `slow_step` (0: never). No path: no file.
  size_t record_bytes = size_t{16} << 20;
  std::string record_path{};
  std::chrono::milliseconds slow_step{0};
  // Whoever waits for longer is next, whatever its priority or its tenant's share.
  std::chrono::milliseconds patience{30'000};
  std::map<std::string, TenantShare> tenants{};  // by name
  TenantShare other_tenants{};                   // each tenant that is not named
};

// Turns requests into tokens. Owns one engine thread (all serving state) and one output thread
// (detokenising, stop strings, sinks). Submit, Cancel, stats and Drain may be called from any
// thread.
class Engine {
 public:
  struct Parts {
    std::shared_ptr<const Tokenizer> tokenizer;
    std::unique_ptr<StepExecutor> executor;
    EngineObserver* observer = nullptr;  // optional; outlives the engine
    // Called once, on the engine thread, if the executor fails: every request has been ended with
    // kError and the engine accepts no more. The process is expected to exit.
    std::function<void(const absl::Status&)> on_fatal;
  };
  Engine(Parts parts, EngineOptions options);
  ~Engine();  // ends what still runs with kCancelled, then joins the threads
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Takes in a request; its chunks go to `sink` until each of its n answers has ended. Never waits.
  // InvalidArgument: a parameter is out of range (the message starts with the wire name of the
  // field, as "temperature: 3 is not in [0, 2]"), or the prompt is empty or does not fit the
  // context (both numbers). ResourceExhausted: too many sequences wait (the message says how many;
  // retry later). Unavailable: draining or stopped.
  absl::Status Submit(std::shared_ptr<const GenerateRequest> request,
                      std::shared_ptr<OutputSink> sink);

  // Ends a request: its blocks are free within one step, and each unfinished answer gets a
  // kCancelled chunk. Unknown and finished ids are ignored; requests of one id end together.
  void Cancel(const std::string& request_id);

  EngineStats stats() const;
  // Shows what runs and waits, at most so many sequences, on the engine thread between two steps:
  // `see` must be quick. Does not wait. False, and it is not called, when the engine has stopped.
  bool Look(size_t sequences_max, std::function<void(EngineState)> see) const;
  // Writes what is recorded of the scheduler's doings to a file; it holds prompts' tokens.
  absl::Status WriteFlightRecord(const std::string& path);
  // A caller who wanted `answers` places was refused, by the engine or before it was asked: seconds
  // after which it may expect them, at least 1. Each call puts one more in the line of those who
  // come back, which moves at the measured drain rate.
  int AppointRetry(int answers);

  // Accepts nothing more; returns true when all that ran has ended, false when `grace` passed first
  // (what then still runs ends with kCancelled).
  bool Drain(std::chrono::milliseconds grace);

  const Tokenizer& tokenizer() const;
  int32_t context_tokens() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::engine
