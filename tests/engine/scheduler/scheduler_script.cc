#include "tests/engine/scheduler/scheduler_script.h"

#include <algorithm>
#include <sstream>

namespace sluice::testing {
namespace {

using engine::GenerateRequest;

constexpr int32_t kVocabulary = 60;

class ScriptMaker {
 public:
  ScriptMaker(uint64_t seed, const Traffic& traffic) : random_(seed), traffic_(traffic) {
    script_.seed = seed;
    script_.steps = traffic.steps;
    script_.depth = traffic.depth;
  }

  Script Make() {
    MakeWorker();
    MakeOptions();
    for (int32_t step = 0; step < traffic_.steps; ++step) {
      for (double left = traffic_.arrivals; left > 0; --left) {
        if (Chance(std::min(left, 1.0))) Arrive(step);
      }
      if (last_ > 0 && Chance(traffic_.cancels))
        script_.events.push_back({step, Pick(std::max(1, last_ - 20), last_), nullptr, -1});
    }
    return std::move(script_);
  }

 private:
  int32_t Pick(int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(random_);
  }
  bool Chance(double p) { return std::bernoulli_distribution(p)(random_); }

  void MakeWorker() {
    SimulatedWorker::Options& options = script_.worker;
    options.limits.slots = Pick(1, 12);
    options.limits.step_tokens = Pick(1, 60);
    options.limits.block_size = Pick(1, 6);
    options.limits.kv_blocks = Pick(2, 40);
    options.limits.context_tokens = Pick(2, 80);
    options.limits.vocabulary = kVocabulary;
    if (traffic_.faults <= 0) return;
    const auto odds = static_cast<uint64_t>(1 / traffic_.faults);
    options.non_finite = [odds](const SimulatedWorker::SampleContext& context) {
      return context.prefix_hash % odds == 0;
    };
  }

  void MakeOptions() {
    engine::Scheduler::Options& options = script_.options;
    options.running_max = Pick(1, 12);
    options.step_tokens = Pick(1, 60);
    options.end_ids = {kEndId};
    options.share_prefixes = Chance(0.9);
    options.prefills_max = Pick(1, 4);
    options.prefill_tokens_min = Pick(1, 16);
    options.line.patience_seconds = Chance(0.5) ? 0.05 : 30;
    options.line.saved_service = Pick(0, 100);
    options.line.tenants_max = Pick(1, 8);
    options.line.tenants["1"].weight = 3;
    options.line.tenants["2"].running_max = 1;
    options.line.tenants["3"].kv_fraction = 0.3;
    if (Chance(0.3)) options.line.tenants["1"].first_token_target = 0.02;
  }

  void Arrive(int32_t step) {
    const engine::ExecutorLimits& limits = script_.worker.limits;
    const int32_t context = std::min(limits.context_tokens, limits.kv_blocks * limits.block_size);
    auto request = std::make_shared<GenerateRequest>();
    request->prompt = RandomPrompt(Pick(1, context - 1));
    if (Chance(0.2)) request->cache_salt = Chance(0.5) ? "a" : "b";
    if (Chance(0.5)) request->tenant = std::to_string(Pick(0, 4));
    if (Chance(0.3)) request->priority = Pick(-1, 1);
    ScriptEvent event{step, ++last_, nullptr, -1};
    if (Chance(traffic_.deadlines)) event.deadline_ms = Pick(0, 100);
    if (Chance(0.3)) request->first_token_target = 1e-3 * Pick(1, 200);
    if (Chance(0.2)) request->inter_token_target = 1e-3 * Pick(1, 4);
    request->sampling.temperature = Chance(0.3) ? 0.0f : 1.0f;
    request->sampling.seed = random_();
    if (Chance(0.2)) request->sampling.frequency_penalty = 1;
    request->stop.max_tokens = Pick(1, 60);
    request->stop.min_tokens = Chance(0.2) ? Pick(0, request->stop.max_tokens) : 0;
    request->stop.ignore_eos = Chance(0.3);
    if (Chance(0.2)) request->stop.token_ids = {Pick(0, 59), Pick(0, 59)};
    request->n = Pick(1, 3);
    event.request = std::move(request);
    script_.events.push_back(std::move(event));
  }

  // Many begin like one of a few texts, and some end like it.
  std::vector<int32_t> RandomPrompt(int32_t length) {
    if (texts_.empty()) {
      texts_.resize(3);
      for (auto& text : texts_)
        for (int32_t i = 0; i < 80; ++i) text.push_back(Pick(0, kVocabulary - 1));
    }
    std::vector<int32_t> prompt = texts_[static_cast<size_t>(Pick(0, 2))];
    prompt.resize(static_cast<size_t>(length));
    const int32_t shared = Chance(0.2) ? length : Chance(0.3) ? 0 : Pick(0, length);
    for (int32_t i = shared; i < length; ++i)
      prompt[static_cast<size_t>(i)] = Pick(0, kVocabulary - 1);
    return prompt;
  }

  std::mt19937_64 random_;
  const Traffic traffic_;
  Script script_;
  std::vector<std::vector<int32_t>> texts_;
  int32_t last_ = 0;
};

}  // namespace

Script RandomScript(uint64_t seed, const Traffic& traffic) {
  return ScriptMaker(seed, traffic).Make();
}

Script Shrunk(const Script& script) {
  Script best = script;
  for (size_t chunk = std::max<size_t>(1, best.events.size() / 2);; chunk /= 2) {
    for (size_t at = 0; at < best.events.size();) {
      Script fewer = best;
      const auto from = fewer.events.begin() + static_cast<std::ptrdiff_t>(at);
      fewer.events.erase(
          from, from + static_cast<std::ptrdiff_t>(std::min(chunk, best.events.size() - at)));
      const PlayResult result = Play(fewer);
      if (result.error.empty()) {
        at += chunk;
        continue;
      }
      fewer.steps = std::min(fewer.steps, result.step + 1);
      best = std::move(fewer);
    }
    if (chunk <= 1) return best;
  }
}

std::string Describe(const Script& script) {
  std::ostringstream out;
  const engine::ExecutorLimits& limits = script.worker.limits;
  const engine::Scheduler::Options& options = script.options;
  out << "seed " << script.seed << ": " << script.steps << " steps, depth " << script.depth
      << "; slots " << limits.slots << ", running_max " << options.running_max << ", step_tokens "
      << limits.step_tokens << " and " << options.step_tokens << ", kv_blocks " << limits.kv_blocks
      << " of " << limits.block_size << ", context " << limits.context_tokens << ", prefills_max "
      << options.prefills_max << ", prefill_tokens_min " << options.prefill_tokens_min
      << ", patience " << options.line.patience_seconds << ", saved " << options.line.saved_service
      << ", tenants_max " << options.line.tenants_max << ", sharing " << options.share_prefixes
      << "\n";
  for (const ScriptEvent& event : script.events) {
    out << "  step " << event.step << ": ";
    if (event.request == nullptr) {
      out << "cancel request " << event.number << "\n";
      continue;
    }
    const GenerateRequest& request = *event.request;
    out << "request " << event.number << ": n " << request.n << ", max_tokens "
        << request.stop.max_tokens << ", tenant '" << request.tenant << "', salt '"
        << request.cache_salt << "', priority " << request.priority << ", deadline "
        << event.deadline_ms << " ms, targets " << request.first_token_target << " s and "
        << request.inter_token_target << " s, prompt";
    for (const int32_t token : request.prompt) out << ' ' << token;
    out << "\n";
  }
  return out.str();
}

}  // namespace sluice::testing
