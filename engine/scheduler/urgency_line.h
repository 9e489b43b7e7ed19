#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "engine/sequence.h"

namespace sluice::engine {

// How urgent a sequence is that has no first token yet, or must go on; in the order of service.
enum class Urgency : uint8_t {
  kReturning,  // was preempted: its caller has an answer that stands still
  kOnTime,     // has a target for its first token and can still make it
  kLate,       // can't any more: those that can go first, or one late answer makes all late
  kAnyTime,    // has no target
};
inline constexpr int kUrgencies = 4;
inline constexpr std::array kAllUrgencies = {Urgency::kReturning, Urgency::kOnTime, Urgency::kLate,
                                             Urgency::kAnyTime};

inline Urgency UrgencyOf(const Sequence& sequence, Clock::time_point now) {
  if (sequence.start_by == Clock::time_point::min()) return Urgency::kReturning;
  if (sequence.start_by == Clock::time_point::max()) return Urgency::kAnyTime;
  return sequence.start_by < now ? Urgency::kLate : Urgency::kOnTime;
}

// The sequences of one tenant and priority that wait, by urgency: those with a target by least
// slack, that is by the latest time at which they must be begun to make it (Liu and Layland 1973
// for deadlines; the late ones behind, as under overload the earliest deadline first makes all
// late), the others by order. Engine thread only.
class UrgencyLine {
 public:
  void Add(Sequence* sequence);
  void Remove(Sequence* sequence);
  // Takes out all that do not wait any more; `gone` is told of each.
  void Sweep(const std::function<void(const Sequence&)>& gone);

  // Begins a round of choosing: nobody was passed by.
  void StartRound(Clock::time_point now);
  // The first of an urgency that was not passed by in this round, or nullptr.
  Sequence* Head(Urgency urgency) const;
  // The one that has waited longest of those that were not passed by as such, or nullptr.
  Sequence* Oldest() const;
  // What Oldest or Head returned.
  void Pass(const Sequence& sequence);

  bool empty() const { return sequences_.empty(); }
  const std::deque<Sequence*>& sequences() const { return sequences_; }

 private:
  // Sections of sequences_, in its order: returning, late, on time, any time.
  struct Section {
    size_t begin;
    size_t end;
  };
  Section SectionOf(Urgency urgency) const;
  Urgency Of(const Sequence& sequence) const { return UrgencyOf(sequence, now_); }
  void FindBorders();

  std::deque<Sequence*> sequences_;  // by start_by, then by order
  std::deque<Sequence*> by_age_;     // the same, by patient_since, then by order
  size_t oldest_passed_ = 0;         // at the head of by_age_
  std::array<size_t, 3> borders_{};  // where late, on time, and any time begin
  std::array<size_t, kUrgencies> passed_{};
  Clock::time_point now_;  // of the round
};

}  // namespace sluice::engine
