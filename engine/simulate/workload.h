#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "engine/request.h"

namespace sluice::engine {

// The answers that a simulated server is asked for, by arrival.
class Workload {
 public:
  // An end that no token of the answer brings about: its caller left, a stop string came.
  struct Cut {
    int32_t tokens = 0;  // after so many; 0: there is none
    FinishReason reason = FinishReason::kNone;
  };
  // An answer that is asked for when another one has ended, so much later.
  struct Follower {
    size_t answer = 0;
    double seconds = 0;
  };

  virtual ~Workload() = default;
  virtual size_t size() const = 0;
  // Of one that follows no other.
  virtual Clock::time_point Arrival(size_t answer) const = 0;
  virtual bool Follows(size_t /*answer*/) const { return false; }
  virtual std::span<const Follower> FollowersOf(size_t /*answer*/) const { return {}; }
  // Asked for at that time. Its sampling.seed is `answer`, so that a worker knows whose slot it is.
  // Made anew for each call: all prompts at once may be more than fits the memory.
  virtual std::shared_ptr<const GenerateRequest> Request(size_t answer,
                                                         Clock::time_point arrival) const = 0;
  virtual int32_t Choice(size_t answer) const = 0;
  // The token that is generated after so many.
  virtual int32_t Token(size_t answer, int32_t generated) const = 0;
  virtual Cut CutOf(size_t answer) const = 0;
};

}  // namespace sluice::engine
