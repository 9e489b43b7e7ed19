#pragma once

#include <memory>

#include "engine/simulate/trace/trace.h"
#include "engine/simulate/workload.h"

namespace sluice::engine {

// The requests of a trace. Their tokens are made up: equal blocks of the trace give equal tokens,
// all others are different, and answers are of exactly their lengths.
class TraceWorkload : public Workload {
 public:
  // `speed`: 2 lets requests come twice as fast. What is longer than the context is clipped: the
  // answer to half of it at most, the prompt to what is left.
  TraceWorkload(Trace trace, double speed, int32_t context_tokens);

  size_t size() const override { return trace_.requests.size(); }
  Clock::time_point Arrival(size_t answer) const override;
  std::shared_ptr<const GenerateRequest> Request(size_t answer,
                                                 Clock::time_point arrival) const override;
  int32_t Choice(size_t) const override { return 0; }
  int32_t Token(size_t answer, int32_t generated) const override;
  Cut CutOf(size_t) const override { return {}; }

  const Trace& trace() const { return trace_; }
  int64_t clipped() const { return clipped_; }  // requests

  // Token ids are below this.
  static constexpr int32_t kVocabulary = INT32_MAX;

 private:
  Trace trace_;
  const double speed_;
  int64_t clipped_ = 0;
};

}  // namespace sluice::engine
