#pragma once

#include <memory>
#include <vector>

#include "engine/simulate/recording.h"
#include "engine/simulate/workload.h"

namespace sluice::engine {

// The answers of a flight record: the very prompts, tokens and ends, at the times at which they
// were asked for.
class RecordedWorkload : public Workload {
 public:
  // `speed`: 2 lets requests come twice as fast. Answers that ended, by no doing of the server,
  // before they had a token are left out, and prompts that do not fit the context.
  RecordedWorkload(const Recording& recording, double speed, int32_t context_tokens);

  size_t size() const override { return answers_.size(); }
  Clock::time_point Arrival(size_t answer) const override;
  std::shared_ptr<const GenerateRequest> Request(size_t answer) const override;
  int32_t Choice(size_t answer) const override { return answers_[answer].choice; }
  int32_t Token(size_t answer, int32_t generated) const override;
  Cut CutOf(size_t answer) const override;

  int64_t left_out() const { return left_out_; }

 private:
  std::vector<RecordedAnswer> answers_;  // their requests are own ones
  std::vector<int32_t> end_ids_;         // of the model
  int64_t left_out_ = 0;
};

}  // namespace sluice::engine
