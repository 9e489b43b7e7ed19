// Targets for the first token: who is begun first, and that nobody waits for ever.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "engine/scheduler/urgency_line.h"
#include "tests/engine/scheduler/scheduler_rig.h"

namespace sluice::testing {
namespace {

using engine::Clock;
using engine::GenerateRequest;
using engine::Scheduler;
using engine::Sequence;
using engine::Urgency;
using engine::UrgencyLine;

constexpr double kStepSeconds = 1e-3;

// One sequence at a time, a step a token: the order of service is the order of admission.
SimulatedWorker::Options OneSlot() {
  auto worker = SmallWorker(1000, 1000, 5000);
  worker.step_seconds = kStepSeconds;
  worker.token_seconds = 0;
  return worker;
}

std::shared_ptr<GenerateRequest> Request(SchedulerRig* rig, double target,
                                         int32_t prompt_tokens = 4, int32_t max_tokens = 10) {
  auto request = rig->MakeRequest(prompt_tokens, max_tokens);
  request->first_token_target = target;
  return request;
}

// Runs until all have ended; the ids in the order of their first tokens.
std::vector<uint64_t> OrderOfService(SchedulerRig* rig) {
  std::vector<uint64_t> order;
  while (rig->Plan()) {
    rig->Commit();
    for (const auto& [id, outcome] : rig->outcomes()) {
      if (!outcome.tokens.empty() && std::find(order.begin(), order.end(), id) == order.end())
        order.push_back(id);
    }
  }
  return order;
}

TEST(SchedulerUrgencyTest, LeastSlackFirstThenTheLateThenThoseWithoutATarget) {
  SchedulerRig rig(OneSlot(), SmallOptions(1));
  const uint64_t first = rig.Add(Request(&rig, 0));
  ASSERT_TRUE(rig.Plan());
  rig.Commit();
  const uint64_t any_time = rig.Add(Request(&rig, 0));
  const uint64_t relaxed = rig.Add(Request(&rig, 10));
  const uint64_t late = rig.Add(Request(&rig, 1e-6));
  const uint64_t urgent = rig.Add(Request(&rig, 1));
  EXPECT_EQ(OrderOfService(&rig), (std::vector{first, urgent, relaxed, late, any_time}));
}

TEST(SchedulerUrgencyTest, ALongPromptMustBeginEarlier) {
  SchedulerRig rig(OneSlot(), SmallOptions(1));
  // So that it knows how fast prompts are computed: 32 tokens take a step.
  const uint64_t teacher = rig.Add(Request(&rig, 0, 32, 2));
  rig.RunAll();
  const uint64_t first = rig.Add(Request(&rig, 0));
  ASSERT_TRUE(rig.Plan());
  rig.Commit();
  const uint64_t brief = rig.Add(Request(&rig, 1.000, 4));
  const uint64_t longer = rig.Add(Request(&rig, 1.005, 900));
  EXPECT_EQ(OrderOfService(&rig), (std::vector{teacher, first, longer, brief}));
}

TEST(SchedulerUrgencyTest, TheRequestsTargetThenItsTenantsThenTheServers) {
  auto options = SmallOptions(1);
  options.first_token_target = 3;
  options.line.tenants["quick"].first_token_target = 2;
  options.line.patience_seconds = 1e9;
  SchedulerRig rig(OneSlot(), options);
  const uint64_t first = rig.Add(Request(&rig, 0));
  ASSERT_TRUE(rig.Plan());
  rig.Commit();
  const uint64_t servers = rig.Add(Request(&rig, 0));
  const uint64_t own = rig.Add(Request(&rig, 1));
  EXPECT_EQ(OrderOfService(&rig), (std::vector{first, own, servers}));

  SchedulerRig tenants(OneSlot(), options);
  const auto of = [&](double target) {
    auto request = Request(&tenants, target);
    request->tenant = "quick";
    return request;
  };
  const uint64_t begun = tenants.Add(of(0));
  ASSERT_TRUE(tenants.Plan());
  tenants.Commit();
  const uint64_t later = tenants.Add(of(2.5));
  const uint64_t tenants_own = tenants.Add(of(0));
  EXPECT_EQ(OrderOfService(&tenants), (std::vector{begun, tenants_own, later}));
}

TEST(SchedulerUrgencyTest, WhoHasNoTargetIsServedAfterItsPatienceBesideAStreamOfUrgentOnes) {
  auto options = SmallOptions(1);
  options.line.patience_seconds = 0.2;
  SchedulerRig rig(OneSlot(), options);
  const uint64_t plain = rig.Add(Request(&rig, 0));
  for (int i = 0; i < 4; ++i) rig.Add(Request(&rig, 5));
  double served_at = 0;
  for (int step = 0; step < 1000 && served_at == 0; ++step) {
    if (step % 5 == 0) rig.Add(Request(&rig, 5));
    ASSERT_TRUE(rig.Plan());
    rig.Commit();
    if (!rig[plain].tokens.empty()) served_at = rig.worker().virtual_seconds();
  }
  EXPECT_GT(served_at, 0.2 - kStepSeconds) << "the urgent ones go first";
  EXPECT_LT(served_at, 0.2 + 20 * kStepSeconds);
}

// Of requests that come faster than they can be served, the share that has its first token in time.
double ShareInTime(bool by_slack) {
  SchedulerRig rig(OneSlot(), SmallOptions(1));
  std::mt19937_64 random(5);
  std::map<uint64_t, std::pair<double, double>> due;  // target, arrival
  double in_time = 0;
  for (int step = 0; step < 6000; ++step) {
    if (random() % 100 < 13) {  // an answer takes ten steps
      const double target = random() % 2 == 0 ? 0.03 : 0.6;
      const double now = rig.worker().virtual_seconds();
      due[rig.Add(Request(&rig, by_slack ? target : 0))] = {target, now};
    }
    if (rig.Plan()) rig.Commit();
    for (auto it = due.begin(); it != due.end();) {
      const auto [target, arrival] = it->second;
      if (rig[it->first].tokens.empty()) {
        ++it;
        continue;
      }
      in_time += rig.worker().virtual_seconds() - arrival <= target ? 1 : 0;
      it = due.erase(it);
    }
  }
  return in_time / static_cast<double>(rig.outcomes().size());
}

TEST(SchedulerUrgencyTest, MoreAreInTimeThanByTheOrderOfArrival) {
  const double by_slack = ShareInTime(true);
  const double by_arrival = ShareInTime(false);
  EXPECT_GT(by_slack, 2 * by_arrival) << by_arrival;
  EXPECT_GT(by_slack, 0.5) << "of 1.3 times what can be served";
}

// A list that is searched from the start, to compare with.
class PlainLine {
 public:
  void Add(Sequence* s, Clock::time_point now) {
    // One that comes before others that were passed by counts as passed by.
    const auto as_urgent = [&](Sequence* p) { return Same(p, s, now) && BySlack(s, p); };
    if (std::any_of(passed_.begin(), passed_.end(), as_urgent)) passed_.push_back(s);
    const auto as_old = [&](Sequence* p) { return ByAge(s, p); };
    if (std::any_of(aged_.begin(), aged_.end(), as_old)) aged_.push_back(s);
    all_.push_back(s);
  }
  void Remove(Sequence* s) {
    for (auto* list : {&all_, &passed_, &aged_}) std::erase(*list, s);
  }
  void StartRound() {
    passed_.clear();
    aged_.clear();
  }
  void Pass(Sequence* s, Clock::time_point now) {
    const bool oldest = Oldest() == s;
    if (Head(UrgencyOf(*s, now), now) == s) passed_.push_back(s);
    if (oldest) aged_.push_back(s);
  }
  Sequence* Head(Urgency urgency, Clock::time_point now) const {
    return First(passed_, BySlack, [&](Sequence* s) { return UrgencyOf(*s, now) == urgency; });
  }
  Sequence* Oldest() const {
    return First(aged_, ByAge, [](Sequence*) { return true; });
  }
  const std::vector<Sequence*>& all() const { return all_; }

 private:
  static bool BySlack(const Sequence* a, const Sequence* b) {
    return std::tie(a->start_by, a->order) < std::tie(b->start_by, b->order);
  }
  static bool ByAge(const Sequence* a, const Sequence* b) {
    return std::tie(a->patient_since, a->order) < std::tie(b->patient_since, b->order);
  }
  static bool Same(const Sequence* a, const Sequence* b, Clock::time_point now) {
    return UrgencyOf(*a, now) == UrgencyOf(*b, now);
  }
  template <class Less, class Is>
  Sequence* First(const std::vector<Sequence*>& without, Less less, Is is) const {
    Sequence* best = nullptr;
    for (Sequence* s : all_) {
      if (!is(s) || std::count(without.begin(), without.end(), s) > 0) continue;
      if (best == nullptr || less(s, best)) best = s;
    }
    return best;
  }

  std::vector<Sequence*> all_, passed_, aged_;
};

TEST(UrgencyLineTest, AsAPlainListHasIt) {
  const uint64_t seed = 11;
  std::mt19937_64 random(seed);
  const auto pick = [&](uint64_t below) { return random() % below; };
  const auto at = [](uint64_t ms) {
    return Clock::time_point() + std::chrono::milliseconds(ms + 1);
  };
  auto request = std::make_shared<GenerateRequest>();
  request->prompt = {1};
  std::vector<std::unique_ptr<Sequence>> all;
  PlainLine plain;
  UrgencyLine line;
  uint64_t now = 0;
  for (int i = 0; i < 20000; ++i) {
    const uint64_t what = pick(9);
    if (what == 0) {
      now += pick(20);
      plain.StartRound();
      line.StartRound(at(now));
    } else if (what <= 2) {
      all.push_back(std::make_unique<Sequence>(all.size(), request, 0, std::vector<int32_t>{}, 9));
      Sequence* const s = all.back().get();
      s->order = pick(2) == 0 ? all.size() : all.size() + 1'000'000;
      s->patient_since = at(now - pick(std::min<uint64_t>(now, 100) + 1));
      const uint64_t kind = pick(4);
      if (kind == 0) s->start_by = Clock::time_point::min();
      if (kind > 1) s->start_by = at(now + pick(200));
      plain.Add(s, at(now));
      line.Add(s);
    } else if (what == 3 && !plain.all().empty()) {
      Sequence* const s = plain.all()[pick(plain.all().size())];
      plain.Remove(s);
      line.Remove(s);
    } else {
      Sequence* const next =
          pick(3) == 0 ? line.Oldest() : line.Head(static_cast<Urgency>(pick(4)));
      if (next == nullptr) continue;
      line.Pass(*next);
      plain.Pass(next, at(now));
    }
    for (const Urgency urgency : engine::kAllUrgencies)
      ASSERT_EQ(line.Head(urgency), plain.Head(urgency, at(now))) << "seed " << seed << ", " << i;
    ASSERT_EQ(line.Oldest(), plain.Oldest()) << "seed " << seed << ", " << i;
  }
}

}  // namespace
}  // namespace sluice::testing
