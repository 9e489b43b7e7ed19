#include "engine/scheduler/urgency_line.h"

#include <algorithm>
#include <tuple>

#include "engine/base/check.h"

namespace sluice::engine {
namespace {

bool Before(const Sequence* a, const Sequence* b) {
  return std::tie(a->start_by, a->order) < std::tie(b->start_by, b->order);
}

}  // namespace

void UrgencyLine::Add(Sequence* sequence) {
  const auto at = std::upper_bound(sequences_.begin(), sequences_.end(), sequence, Before);
  const auto index = static_cast<size_t>(at - sequences_.begin());
  const Urgency urgency = Of(*sequence);
  // Among those that were passed by: it is passed by, too.
  size_t& passed = passed_[static_cast<size_t>(urgency)];
  if (index < SectionOf(urgency).begin + passed) ++passed;
  sequences_.insert(at, sequence);
  FindBorders();
}

void UrgencyLine::Remove(Sequence* sequence) {
  const auto at = std::lower_bound(sequences_.begin(), sequences_.end(), sequence, Before);
  ENGINE_CHECK(at != sequences_.end() && *at == sequence) << "sequence " << sequence->id;
  const auto index = static_cast<size_t>(at - sequences_.begin());
  const Urgency urgency = Of(*sequence);
  size_t& passed = passed_[static_cast<size_t>(urgency)];
  if (index < SectionOf(urgency).begin + passed) --passed;
  sequences_.erase(at);
  FindBorders();
}

void UrgencyLine::Sweep(const std::function<void(const Sequence&)>& gone) {
  std::erase_if(sequences_, [&](const Sequence* sequence) {
    const bool left = sequence->state != SequenceState::kWaiting;
    if (left) gone(*sequence);
    return left;
  });
  StartRound(now_);
}

void UrgencyLine::StartRound(Clock::time_point now) {
  now_ = now;
  passed_ = {};
  FindBorders();
}

void UrgencyLine::FindBorders() {
  const auto first_from = [&](Clock::time_point start_by) {
    const auto at = std::partition_point(sequences_.begin(), sequences_.end(),
                                         [&](const Sequence* s) { return s->start_by < start_by; });
    return static_cast<size_t>(at - sequences_.begin());
  };
  constexpr auto kTick = Clock::duration(1);
  const size_t returning = first_from(Clock::time_point::min() + kTick);
  borders_ = {returning, std::max(returning, first_from(now_)),
              first_from(Clock::time_point::max())};
}

UrgencyLine::Section UrgencyLine::SectionOf(Urgency urgency) const {
  switch (urgency) {
    case Urgency::kReturning:
      return {0, borders_[0]};
    case Urgency::kLate:
      return {borders_[0], borders_[1]};
    case Urgency::kOnTime:
      return {borders_[1], borders_[2]};
    case Urgency::kAnyTime:
      break;
  }
  return {borders_[2], sequences_.size()};
}

Sequence* UrgencyLine::Head(Urgency urgency) const {
  const Section section = SectionOf(urgency);
  const size_t index = section.begin + passed_[static_cast<size_t>(urgency)];
  return index < section.end ? sequences_[index] : nullptr;
}

}  // namespace sluice::engine
