#include "engine/scheduler/urgency_line.h"

#include <algorithm>
#include <tuple>

#include "engine/base/check.h"

namespace sluice::engine {
namespace {

bool Before(const Sequence* a, const Sequence* b) {
  return std::tie(a->start_by, a->order) < std::tie(b->start_by, b->order);
}

bool WaitsLonger(const Sequence* a, const Sequence* b) {
  return std::tie(a->patient_since, a->order) < std::tie(b->patient_since, b->order);
}

// Where `sequence` is, or would be put.
template <typename Less>
size_t IndexIn(const std::deque<Sequence*>& sequences, const Sequence* sequence, Less less) {
  const auto at = std::lower_bound(sequences.begin(), sequences.end(), sequence, less);
  return static_cast<size_t>(at - sequences.begin());
}

}  // namespace

void UrgencyLine::Add(Sequence* sequence) {
  const size_t index = IndexIn(sequences_, sequence, Before);
  const Urgency urgency = Of(*sequence);
  // Among those that were passed by: it is passed by, too.
  size_t& passed = passed_[static_cast<size_t>(urgency)];
  if (index < SectionOf(urgency).begin + passed) ++passed;
  sequences_.insert(sequences_.begin() + static_cast<std::ptrdiff_t>(index), sequence);
  const size_t age = IndexIn(by_age_, sequence, WaitsLonger);
  if (age < oldest_passed_) ++oldest_passed_;
  by_age_.insert(by_age_.begin() + static_cast<std::ptrdiff_t>(age), sequence);
  FindBorders();
}

void UrgencyLine::Remove(Sequence* sequence) {
  const size_t index = IndexIn(sequences_, sequence, Before);
  const size_t age = IndexIn(by_age_, sequence, WaitsLonger);
  ENGINE_CHECK(index < sequences_.size() && sequences_[index] == sequence &&
               by_age_[age] == sequence)
      << "sequence " << sequence->id;
  const Urgency urgency = Of(*sequence);
  size_t& passed = passed_[static_cast<size_t>(urgency)];
  if (index < SectionOf(urgency).begin + passed) --passed;
  sequences_.erase(sequences_.begin() + static_cast<std::ptrdiff_t>(index));
  if (age < oldest_passed_) --oldest_passed_;
  by_age_.erase(by_age_.begin() + static_cast<std::ptrdiff_t>(age));
  FindBorders();
}

void UrgencyLine::Sweep(const std::function<void(const Sequence&)>& gone) {
  std::erase_if(sequences_, [&](const Sequence* sequence) {
    const bool left = sequence->state != SequenceState::kWaiting;
    if (left) gone(*sequence);
    return left;
  });
  std::erase_if(by_age_, [](const Sequence* s) { return s->state != SequenceState::kWaiting; });
  StartRound(now_);
}

void UrgencyLine::StartRound(Clock::time_point now) {
  now_ = now;
  passed_ = {};
  oldest_passed_ = 0;
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

Sequence* UrgencyLine::Oldest() const {
  return oldest_passed_ < by_age_.size() ? by_age_[oldest_passed_] : nullptr;
}

void UrgencyLine::Pass(const Sequence& sequence) {
  if (Oldest() == &sequence) ++oldest_passed_;
  const Urgency urgency = Of(sequence);
  if (Head(urgency) == &sequence) ++passed_[static_cast<size_t>(urgency)];
}

}  // namespace sluice::engine
