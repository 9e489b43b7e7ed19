#include "engine/simulate/recorded_workload.h"

#include <algorithm>
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

RecordedWorkload::RecordedWorkload(const Recording& recording, double speed, int32_t context_tokens)
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
  for (RecordedAnswer& answer : answers_) {
    auto request = std::make_shared<GenerateRequest>(*answer.request);
    const Ticks offset = request->arrival - first;
    MoveTo(Clock::time_point(std::chrono::seconds(1)) +
               std::chrono::round<Clock::duration>(std::min(offset / speed, kOffsetMax)),
           request.get());
    answer.request = std::move(request);
  }
  std::stable_sort(answers_.begin(), answers_.end(),
                   [](const RecordedAnswer& a, const RecordedAnswer& b) {
                     return a.request->arrival < b.request->arrival;
                   });
}

Clock::time_point RecordedWorkload::Arrival(size_t answer) const {
  return answers_[answer].request->arrival;
}

std::shared_ptr<const GenerateRequest> RecordedWorkload::Request(size_t answer) const {
  auto request = std::make_shared<GenerateRequest>(*answers_[answer].request);
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
