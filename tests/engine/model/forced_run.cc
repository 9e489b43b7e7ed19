#include "tests/engine/model/forced_run.h"

#include <algorithm>
#include <numeric>

namespace sluice::testing {

void ForcedRun(engine::Worker& worker, std::span<const int32_t> tokens, size_t first_wanted,
               const std::function<void(size_t position, std::span<const float> logits)>& show) {
  const engine::ExecutorLimits& limits = worker.limits();
  const auto vocabulary = static_cast<size_t>(limits.vocabulary);
  size_t done = 0;
  while (done < tokens.size()) {
    const bool wanted = done >= first_wanted;
    const size_t end = wanted ? tokens.size() : std::min(tokens.size(), first_wanted);
    const size_t n = std::min(end - done, static_cast<size_t>(limits.step_tokens));
    engine::StepPlan plan;
    if (done == 0) {
      const auto block_size = static_cast<size_t>(limits.block_size);
      plan.blocks.resize((tokens.size() + block_size - 1) / block_size);
      std::iota(plan.blocks.begin(), plan.blocks.end(), 0);
      plan.starts.push_back({0, {}, {}, 0});
      plan.appends.push_back({0, 0, static_cast<int32_t>(plan.blocks.size())});
    }
    plan.tokens.assign(tokens.begin() + static_cast<ptrdiff_t>(done),
                       tokens.begin() + static_cast<ptrdiff_t>(done + n));
    plan.slices.push_back(
        {0, static_cast<int32_t>(done), 0, static_cast<int32_t>(n), engine::SliceOutput::kNone, 0});
    engine::LogitsProbe probe;
    if (wanted) {
      probe.every_row = true;
      probe.on_logits = [&](const engine::StepPlan&, std::span<const int32_t> rows,
                            const float* logits) {
        for (size_t i = 0; i < rows.size(); ++i) {
          show(done + static_cast<size_t>(rows[i]), {logits + i * vocabulary, vocabulary});
        }
      };
    }
    worker.SetProbe(std::move(probe));
    worker.Run(plan);
    done += n;
  }
  worker.SetProbe({});
  engine::StepPlan release;
  release.releases = {0};
  worker.Run(release);
}

}  // namespace sluice::testing
