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

std::shared_ptr<GenerateRequest> Request(const SchedulerRig& rig, double target,
                                         int32_t prompt_tokens = 4, int32_t max_tokens = 10) {
  static int32_t next = 0;
  auto request = std::make_shared<GenerateRequest>();
  for (int32_t i = 0; i < prompt_tokens; ++i) request->prompt.push_back(10 + next++ % 4900);
  request->sampling.temperature = 0;
  request->stop.max_tokens = max_tokens;
  request->stop.ignore_eos = true;
  request->first_token_target = target;
  request->arrival = rig.Now();
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
  const uint64_t first = rig.Add(Request(rig, 0));
  ASSERT_TRUE(rig.Plan());
  rig.Commit();
  const uint64_t any_time = rig.Add(Request(rig, 0));
  const uint64_t relaxed = rig.Add(Request(rig, 10));
  const uint64_t late = rig.Add(Request(rig, 1e-6));
  const uint64_t urgent = rig.Add(Request(rig, 1));
  EXPECT_EQ(OrderOfService(&rig), (std::vector{first, urgent, relaxed, late, any_time}));
}

TEST(SchedulerUrgencyTest, ALongPromptMustBeginEarlier) {
  SchedulerRig rig(OneSlot(), SmallOptions(1));
  // So that it knows how fast prompts are computed: 32 tokens take a step.
  const uint64_t teacher = rig.Add(Request(rig, 0, 32, 2));
  rig.RunAll();
  const uint64_t first = rig.Add(Request(rig, 0));
  ASSERT_TRUE(rig.Plan());
  rig.Commit();
  const uint64_t brief = rig.Add(Request(rig, 1.000, 4));
  const uint64_t longer = rig.Add(Request(rig, 1.005, 900));
  EXPECT_EQ(OrderOfService(&rig), (std::vector{teacher, first, longer, brief}));
}

TEST(SchedulerUrgencyTest, TheRequestsTargetThenItsTenantsThenTheServers) {
  auto options = SmallOptions(1);
  options.first_token_target = 3;
  options.line.tenants["quick"].first_token_target = 2;
  options.line.patience_seconds = 1e9;
  SchedulerRig rig(OneSlot(), options);
  const uint64_t first = rig.Add(Request(rig, 0));
  ASSERT_TRUE(rig.Plan());
  rig.Commit();
  const uint64_t servers = rig.Add(Request(rig, 0));
  const uint64_t own = rig.Add(Request(rig, 1));
  EXPECT_EQ(OrderOfService(&rig), (std::vector{first, own, servers}));

  SchedulerRig tenants(OneSlot(), options);
  const auto of = [&](double target) {
    auto request = Request(tenants, target);
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
  const uint64_t plain = rig.Add(Request(rig, 0));
  for (int i = 0; i < 4; ++i) rig.Add(Request(rig, 5));
  double served_at = 0;
  for (int step = 0; step < 1000 && served_at == 0; ++step) {
    if (step % 5 == 0) rig.Add(Request(rig, 5));
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
      due[rig.Add(Request(rig, by_slack ? target : 0))] = {target, now};
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

// Against a list that is searched from the start.
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
  std::vector<Sequence*> plain, passed;
  UrgencyLine line;
  uint64_t now = 0;
  const auto expected = [&](Urgency urgency) {
    Sequence* best = nullptr;
    for (Sequence* s : plain) {
      if (UrgencyOf(*s, at(now)) != urgency || std::count(passed.begin(), passed.end(), s) > 0)
        continue;
      if (best == nullptr ||
          std::tie(s->start_by, s->order) < std::tie(best->start_by, best->order))
        best = s;
    }
    return best;
  };
  for (int i = 0; i < 20000; ++i) {
    switch (pick(8)) {
      case 0:
        now += pick(20);
        passed.clear();
        line.StartRound(at(now));
        break;
      case 1:
      case 2: {
        all.push_back(
            std::make_unique<Sequence>(all.size(), request, 0, std::vector<int32_t>{}, 9));
        Sequence* const s = all.back().get();
        s->order = pick(2) == 0 ? all.size() : all.size() + 1'000'000;
        const uint64_t kind = pick(4);
        if (kind == 0) s->start_by = Clock::time_point::min();
        if (kind > 1) s->start_by = at(now + pick(200));
        // A returning one that comes before others that were passed by counts as passed by.
        plain.push_back(s);
        const Urgency urgency = UrgencyOf(*s, at(now));
        Sequence* last_passed = nullptr;
        for (Sequence* p : passed) {
          if (UrgencyOf(*p, at(now)) != urgency) continue;
          if (last_passed == nullptr ||
              std::tie(last_passed->start_by, last_passed->order) < std::tie(p->start_by, p->order))
            last_passed = p;
        }
        if (last_passed != nullptr &&
            std::tie(s->start_by, s->order) < std::tie(last_passed->start_by, last_passed->order))
          passed.push_back(s);
        line.Add(s);
        break;
      }
      case 3:
        if (plain.empty()) break;
        {
          Sequence* const s = plain[pick(plain.size())];
          std::erase(plain, s);
          std::erase(passed, s);
          line.Remove(s);
        }
        break;
      default: {
        Sequence* const head = line.Head(static_cast<Urgency>(pick(4)));
        if (head == nullptr) break;
        line.Pass(*head);
        passed.push_back(head);
        break;
      }
    }
    for (const Urgency urgency : engine::kAllUrgencies) {
      ASSERT_EQ(line.Head(urgency), expected(urgency)) << "seed " << seed << ", round " << i;
    }
  }
}

}  // namespace
}  // namespace sluice::testing
