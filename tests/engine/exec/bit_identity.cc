#include "tests/engine/exec/bit_identity.h"

#include <algorithm>
#include <deque>

#include "tests/engine/exec/plan_builder.h"

namespace sluice::testing {
namespace {

// A sequence on its way: known tokens are prompt and answer, computed ones lie in its blocks.
struct Running {
  size_t index = 0;
  int32_t slot = 0;
  int32_t computed = 0;
  bool started = false;
  bool preempted = false;
};

class Runner {
 public:
  Runner(engine::Worker& worker, const std::vector<Generation>& generations,
         const Schedule& schedule)
      : worker_(worker),
        generations_(generations),
        schedule_(schedule),
        builder_(worker.limits()),
        answers_(generations.size()) {
    for (size_t i = 0; i < generations.size(); ++i) waiting_.push_back(i);
    if (schedule.reversed) std::reverse(waiting_.begin(), waiting_.end());
  }

  std::vector<std::vector<int32_t>> Run() {
    while (!waiting_.empty() || !running_.empty()) {
      Admit();
      Step();
    }
    worker_.Run(builder_.Take());  // the last releases
    return std::move(answers_);
  }

 private:
  std::vector<int32_t> Known(size_t index) const {
    std::vector<int32_t> known = generations_[index].prompt;
    known.insert(known.end(), answers_[index].begin(), answers_[index].end());
    return known;
  }
  int32_t FreeSlot() const {
    for (int32_t slot = 0;; ++slot) {
      if (std::none_of(running_.begin(), running_.end(),
                       [&](const Running& r) { return r.slot == slot; })) {
        return slot;
      }
    }
  }
  void Admit() {
    while (!waiting_.empty() && static_cast<int32_t>(running_.size()) < schedule_.together) {
      running_.push_back({waiting_.front(), FreeSlot(), 0, false, false});
      waiting_.pop_front();
    }
  }
  void Step() {
    int32_t budget = std::min(schedule_.budget, worker_.limits().step_tokens);
    for (Running& r : running_) {
      const Generation& g = generations_[r.index];
      const std::vector<int32_t> known = Known(r.index);
      const auto left = static_cast<int32_t>(known.size()) - r.computed;
      const int32_t n = std::min({left, schedule_.chunk, budget});
      if (n == 0) continue;
      if (!r.started) {
        const int32_t room = static_cast<int32_t>(g.prompt.size()) + g.tokens;
        const int32_t blocks_each = worker_.limits().kv_blocks / schedule_.together;
        builder_.Start(r.slot, g.sampling, r.slot * blocks_each, room,
                       g.sampling.UsesPenalties() ? known : std::vector<int32_t>{},
                       static_cast<int32_t>(g.prompt.size()));
        r.started = true;
      }
      builder_.Slice(
          r.slot, r.computed,
          std::span(known).subspan(static_cast<size_t>(r.computed), static_cast<size_t>(n)),
          n == left ? engine::SliceOutput::kSample : engine::SliceOutput::kNone,
          static_cast<int32_t>(answers_[r.index].size()));
      r.computed += n;
      budget -= n;
    }
    for (const engine::SliceResult& result : worker_.Run(builder_.Take()).slices) {
      const auto r = std::find_if(running_.begin(), running_.end(),
                                  [&](const Running& x) { return x.slot == result.slot; });
      answers_[r->index].push_back(result.token);
    }
    Retire();
  }
  void Retire() {
    for (auto r = running_.begin(); r != running_.end();) {
      const auto generated = static_cast<int32_t>(answers_[r->index].size());
      if (generated == generations_[r->index].tokens) {
        builder_.Release(r->slot);
        r = running_.erase(r);
        continue;
      }
      if (schedule_.preempt_after > 0 && generated == schedule_.preempt_after && !r->preempted) {
        builder_.Release(r->slot);
        r->started = false, r->computed = 0, r->preempted = true;
      }
      ++r;
    }
  }

  engine::Worker& worker_;
  const std::vector<Generation>& generations_;
  const Schedule schedule_;
  PlanBuilder builder_;
  std::deque<size_t> waiting_;
  std::vector<Running> running_;
  std::vector<std::vector<int32_t>> answers_;
};

}  // namespace

std::vector<std::vector<int32_t>> Generate(engine::Worker& worker,
                                           const std::vector<Generation>& generations,
                                           const Schedule& schedule) {
  return Runner(worker, generations, schedule).Run();
}

}  // namespace sluice::testing
