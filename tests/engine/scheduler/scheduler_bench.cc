// What the planning half costs a step: Plan and Commit over 16 to 4,096 running sequences, all
// decoding, and with a prompt in each step: one that is in memory, and one that is new, with and
// without the prefix index. Prints the median, the 99th percentile, and how often memory was asked
// for; and what the index costs a token of new prompts, by the medians.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <random>
#include <vector>

#include "engine/scheduler/scheduler.h"

namespace {
int64_t allocations = 0;  // the program has one thread
}

void* operator new(size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace sluice::engine {
namespace {

constexpr int32_t kContext = 4096;
constexpr int32_t kPrompt = 1024;
constexpr int32_t kShortPrompt = 256;
constexpr int32_t kVocabulary = 100;
constexpr int32_t kSteps = 2000;
constexpr int32_t kWarmUp = 100;

double Microseconds(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double, std::micro>(end - begin).count();
}

std::shared_ptr<const GenerateRequest> Request(int32_t prompt_tokens) {
  auto request = std::make_shared<GenerateRequest>();
  request->prompt.assign(static_cast<size_t>(prompt_tokens), 1);
  request->stop.max_tokens = kContext;
  return request;
}

// The result that a worker would give at once.
StepResult ResultOf(StepPlan plan) {
  StepResult result;
  result.step = plan.step;
  result.slices.reserve(plan.slices.size());
  for (const PlanSlice& slice : plan.slices)
    if (slice.output == SliceOutput::kSample)
      result.slices.push_back({slice.slot, 2, SliceStatus::kOk});
  result.spent = std::move(plan);
  return result;
}

enum class Prompts { kNone, kInMemory, kNew, kNewWithoutIndex };
constexpr const char* kPromptsNames[] = {"", "+ prefill", "+ new prompts", "+ new, no index"};

// A prompt that begins like none before.
std::shared_ptr<const GenerateRequest> NewRequest(std::mt19937_64* random) {
  auto request = std::make_shared<GenerateRequest>();
  for (int32_t i = 0; i < kShortPrompt; ++i)
    request->prompt.push_back(static_cast<int32_t>((*random)() % kVocabulary));
  request->stop.max_tokens = kContext - kShortPrompt;
  return request;
}

// The median, in microseconds.
double Measure(int32_t running, Prompts prompts) {
  ExecutorLimits limits;
  limits.slots = running + 1;
  limits.step_tokens = running * 4 + 4096;
  limits.block_size = 16;
  limits.kv_blocks = (running + 1) * (kContext / limits.block_size);
  limits.context_tokens = kContext;
  limits.vocabulary = kVocabulary;
  Scheduler::Options options;
  options.running_max = running + 1;
  options.step_tokens = limits.step_tokens;
  options.end_ids = {3, 4};
  options.share_prefixes = prompts != Prompts::kNewWithoutIndex;
  Scheduler scheduler(limits, options);
  uint64_t last_id = 0;
  const auto request = Request(kPrompt);
  for (int32_t i = 0; i < running; ++i) scheduler.Add(++last_id, request, 0);

  std::vector<SequenceEvent> events;
  int64_t allocated = 0;  // in Plan and Commit
  const auto step = [&] {
    int64_t before = allocations;
    const auto begin = Clock::now();
    StepPlan plan = scheduler.Plan(begin);
    const auto planned = Clock::now();
    allocated += allocations - before;
    StepResult result = ResultOf(std::move(plan));
    events.clear();
    before = allocations;
    const auto commit = Clock::now();
    if (!scheduler.Commit(std::move(result), commit, &events).ok()) std::abort();
    const auto committed = Clock::now();
    allocated += allocations - before;
    return Microseconds(begin, planned) + Microseconds(commit, committed);
  };
  while (scheduler.stats().generation_tokens < running) step();
  for (int32_t i = 0; i < kWarmUp; ++i) step();

  std::vector<double> times;
  times.reserve(kSteps);
  allocated = 0;
  const auto in_memory = Request(kShortPrompt);
  std::mt19937_64 random(1);
  for (int32_t i = 0; i < kSteps; ++i) {
    if (prompts != Prompts::kNone)
      scheduler.Add(++last_id, prompts == Prompts::kInMemory ? in_memory : NewRequest(&random), 0);
    times.push_back(step());
    if (prompts != Prompts::kNone)
      scheduler.Finish(last_id, FinishReason::kCancelled, Clock::now(), &events);
  }
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2];
  std::printf(
      "%6d running %-15s  median %8.2f us  P99 %8.2f us  %6.1f ns a sequence  %6.3f allocations a "
      "step\n",
      running, kPromptsNames[static_cast<size_t>(prompts)], median, times[times.size() * 99 / 100],
      median * 1e3 / running, static_cast<double>(allocated) / kSteps);
  return median;
}

}  // namespace
}  // namespace sluice::engine

int main() {
  using sluice::engine::Measure;
  using sluice::engine::Prompts;
  constexpr int32_t kRunning[] = {16, 64, 256, 1024, 4096};
  for (const Prompts prompts : {Prompts::kNone, Prompts::kInMemory})
    for (const int32_t running : kRunning) Measure(running, prompts);
  for (const int32_t running : {16, 64, 256}) {
    const double with = Measure(running, Prompts::kNew);
    const double without = Measure(running, Prompts::kNewWithoutIndex);
    std::printf("%6d running: the index costs %.1f ns a token of a new prompt\n", running,
                1e3 * (with - without) / sluice::engine::kShortPrompt);
  }
}
