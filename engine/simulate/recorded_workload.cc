#include "engine/simulate/recorded_workload.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace sluice::engine {
namespace {

using Ticks = std::chrono::duration<double, Clock::period>;

// However slowly a record is played, a time_point holds it.
constexpr Ticks kOffsetMax = std::chrono::seconds(4'000'000'000);

// Deadlines stay where they are, seen from the arrival.
void MoveTo(Clock::time_point arrival, GenerateRequest* request) {
  if (request->deadline != Clock::time_point::max())
    request->deadline += arrival - request->arrival;
  request->arrival = arrival;
}

bool Contains(const std::vector<int32_t>& values, int32_t value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

}  // namespace

RecordedWorkload::RecordedWorkload(const Recording& recording, double speed, int32_t context_tokens,
                                   double think_time_max)
    : end_ids_(recording.scheduler.end_ids) {
  Clock::time_point first = Clock::time_point::max();
  for (const RecordedAnswer& answer : recording.answers) {
    if (static_cast<int64_t>(answer.request->prompt.size()) >= context_tokens ||
        (answer.tokens.empty() && answer.finish != FinishReason::kExpired)) {
      ++left_out_;
      continue;
    }
    answers_.push_back(answer);
    first = std::min(first, answer.request->arrival);
  }
  std::stable_sort(answers_.begin(), answers_.end(),
                   [](const RecordedAnswer& a, const RecordedAnswer& b) {
                     return a.request->arrival < b.request->arrival;
                   });
  FindFollowers(think_time_max, speed);
  for (RecordedAnswer& answer : answers_) {
    auto request = std::make_shared<GenerateRequest>(*answer.request);
    const Ticks offset = request->arrival - first;
    MoveTo(Clock::time_point(std::chrono::seconds(1)) +
               std::chrono::round<Clock::duration>(std::min(offset / speed, kOffsetMax)),
           request.get());
    answer.request = std::move(request);
  }
}

// Each request follows the latest end before it that no other has followed. What came at the same
// moment is one request's.
void RecordedWorkload::FindFollowers(double think_time_max, double speed) {
  follows_.resize(answers_.size());
  followers_.resize(answers_.size());
  if (think_time_max <= 0) return;
  std::vector<size_t> ended;
  for (size_t i = 0; i < answers_.size(); ++i) {
    if (answers_[i].finish != FinishReason::kNone) ended.push_back(i);
  }
  std::stable_sort(ended.begin(), ended.end(),
                   [&](size_t a, size_t b) { return answers_[a].end < answers_[b].end; });
  auto next = ended.begin();
  std::vector<size_t> free;  // ends before now that none has followed, the latest last
  constexpr size_t kNone = SIZE_MAX;
  size_t followed = kNone;
  for (size_t i = 0; i < answers_.size(); ++i) {
    const Clock::time_point arrival = answers_[i].request->arrival;
    if (i == 0 || arrival != answers_[i - 1].request->arrival) {
      for (; next != ended.end() && answers_[*next].end <= arrival; ++next) free.push_back(*next);
      followed = kNone;
      if (!free.empty() && Seconds(arrival - answers_[free.back()].end) <= think_time_max) {
        followed = free.back();
        free.pop_back();
      }
    }
    if (followed == kNone) continue;
    const double seconds = Seconds(arrival - answers_[followed].end) / speed;
    followers_[followed].push_back({i, seconds});
    follows_[i] = true;
  }
}

Clock::time_point RecordedWorkload::Arrival(size_t answer) const {
  return answers_[answer].request->arrival;
}

std::shared_ptr<const GenerateRequest> RecordedWorkload::Request(size_t answer,
                                                                 Clock::time_point arrival) const {
  auto request = std::make_shared<GenerateRequest>(*answers_[answer].request);
  MoveTo(arrival, request.get());
  request->sampling.seed = answer;
  return request;
}

int32_t RecordedWorkload::Token(size_t answer, int32_t generated) const {
  const RecordedAnswer& recorded = answers_[answer];
  const auto place = static_cast<size_t>(generated);
  if (place < recorded.tokens.size()) return recorded.tokens[place];
  // Of an answer that was cut off, any that does not end it.
  int32_t token = 0;
  while (Contains(end_ids_, token) || Contains(recorded.request->stop.token_ids, token)) ++token;
  return token;
}

// A deadline passes in the simulation, too.
Workload::Cut RecordedWorkload::CutOf(size_t answer) const {
  const RecordedAnswer& recorded = answers_[answer];
  if (recorded.ended_by_token || recorded.finish == FinishReason::kExpired) return {};
  const bool open = recorded.finish == FinishReason::kNone;
  return {static_cast<int32_t>(recorded.tokens.size()),
          open ? FinishReason::kCancelled : recorded.finish};
}

}  // namespace sluice::engine
