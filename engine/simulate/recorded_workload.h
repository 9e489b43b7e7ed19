#pragma once

#include <algorithm>
#include <memory>
#include <span>
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
  // `think_time_max`: a request that came at most so many seconds after the end of an answer was
  // sent by a caller that had waited for it, and waits for it here, too (a closed loop); 0: each
  // comes when it came, however long the ones before it take.
  RecordedWorkload(const Recording& recording, double speed, int32_t context_tokens,
                   double think_time_max = 0);

  size_t size() const override { return answers_.size(); }
  Clock::time_point Arrival(size_t answer) const override;
  bool Follows(size_t answer) const override { return follows_[answer]; }
  std::span<const Follower> FollowersOf(size_t answer) const override { return followers_[answer]; }
  std::shared_ptr<const GenerateRequest> Request(size_t answer,
                                                 Clock::time_point arrival) const override;
  int32_t Choice(size_t answer) const override { return answers_[answer].choice; }
  int32_t Token(size_t answer, int32_t generated) const override;
  Cut CutOf(size_t answer) const override;

  int64_t left_out() const { return left_out_; }
  int64_t following() const { return std::count(follows_.begin(), follows_.end(), true); }

 private:
  void FindFollowers(double think_time_max, double speed);

  std::vector<RecordedAnswer> answers_;  // their requests are own ones
  std::vector<int32_t> end_ids_;         // of the model
  std::vector<bool> follows_;
  std::vector<std::vector<Follower>> followers_;
  int64_t left_out_ = 0;
};

}  // namespace sluice::engine
