#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/engine/scheduler/scheduler_rig.h"

namespace sluice::testing {

// What a random run is made of.
struct Traffic {
  int32_t steps = 0;
  int32_t depth = 1;     // steps in flight
  double arrivals = 0;   // a step, in the mean
  double cancels = 0;    // a step, in the mean
  double faults = 0;     // of sampled rows
  double deadlines = 0;  // of requests
};

// Something that happens before a step.
struct ScriptEvent {
  int32_t step = 0;
  int32_t number = 0;  // of the request
  // Null: the request is cancelled, wherever it has come to.
  std::shared_ptr<const engine::GenerateRequest> request;
  int32_t deadline_ms = -1;  // from its arrival; -1: none
};

// A worker, a scheduler and all that happens to them.
struct Script {
  uint64_t seed = 0;
  int32_t steps = 0;
  int32_t depth = 1;
  SimulatedWorker::Options worker;
  engine::Scheduler::Options options;
  std::vector<ScriptEvent> events;  // by step
};

Script RandomScript(uint64_t seed, const Traffic& traffic);

struct PlayResult {
  std::string error;  // what is wrong; empty when nothing is
  int32_t step = 0;   // when it was found
  engine::EngineStats stats;
  int32_t faults = 0;
  int32_t deadlines = 0;
  int64_t overtaken_most = 0;  // see Play
};

// Plays a script to its end and checks after every step that all books balance and no budget is
// overrun, and in the end that each sequence has ended once, with exactly the tokens that it would
// have had alone. Nobody is starved: of the sequences that came after one that has waited for
// longer than the line's patience, only a bounded number get their first token before it does.
PlayResult Play(const Script& script);

// A script that still fails, of which nothing can be left out.
Script Shrunk(const Script& script);

// To be read by people.
std::string Describe(const Script& script);

}  // namespace sluice::testing
