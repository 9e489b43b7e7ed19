#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "engine/base/status.h"

namespace sluice::server {

struct InFlightLimits {
  int32_t requests = 4096;                   // from their arrival to the end of their answers
  int64_t prompt_tokens = int64_t{4} << 20;  // of all of them, once for each answer
};

// What all callers together have under way, whatever the dialect. Thread-safe.
class InFlight : public std::enable_shared_from_this<InFlight> {
 public:
  explicit InFlight(InFlightLimits limits) : limits_(limits) {}

  // One request's place, free again with it. Not thread-safe itself.
  class Ticket {
   public:
    explicit Ticket(std::shared_ptr<InFlight> in_flight) : in_flight_(std::move(in_flight)) {}
    ~Ticket() {
      in_flight_->prompt_tokens_ -= tokens_;
      --in_flight_->requests_;
    }
    Ticket(const Ticket&) = delete;
    Ticket& operator=(const Ticket&) = delete;

    // ResourceExhausted (retry later) when others have too many prompt tokens under way,
    // InvalidArgument when the request alone has.
    absl::Status AddPromptTokens(int64_t tokens) {
      const int64_t most = in_flight_->limits_.prompt_tokens;
      if (tokens_ + tokens > most) {
        return engine::InvalidArgument("prompt: " + std::to_string(tokens_ + tokens) +
                                       " tokens in all answers of one request, at most " +
                                       std::to_string(most) + " may be in flight");
      }
      const int64_t all = in_flight_->prompt_tokens_.fetch_add(tokens) + tokens;
      if (all > most) {
        in_flight_->prompt_tokens_ -= tokens;
        return engine::ResourceExhausted("too many prompt tokens: " + std::to_string(all - tokens) +
                                         " are in flight, and with " + std::to_string(tokens) +
                                         " more they would pass the limit of " +
                                         std::to_string(most));
      }
      tokens_ += tokens;
      return absl::OkStatus();
    }

   private:
    const std::shared_ptr<InFlight> in_flight_;
    int64_t tokens_ = 0;
  };

  // ResourceExhausted when there are as many requests as may be.
  absl::StatusOr<std::shared_ptr<Ticket>> Enter() {
    if (requests_.fetch_add(1) >= limits_.requests) {
      --requests_;
      return engine::ResourceExhausted("too many requests: " + std::to_string(limits_.requests) +
                                       " are in flight, the most that may be");
    }
    return std::make_shared<Ticket>(shared_from_this());
  }

  int32_t requests() const { return requests_; }
  int64_t prompt_tokens() const { return prompt_tokens_; }

 private:
  const InFlightLimits limits_;
  std::atomic<int32_t> requests_{0};
  std::atomic<int64_t> prompt_tokens_{0};
};

}  // namespace sluice::server
