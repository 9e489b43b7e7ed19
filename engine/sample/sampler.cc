#include "engine/sample/sampler.h"

#include <algorithm>
#include <limits>

#include "kernels/check.h"

namespace sluice::engine {
namespace {

// Biases a row for which room is made ahead; more make the staging area grow once.
constexpr int64_t kBiasesForeseen = 1024;

constexpr float kForbidden = -std::numeric_limits<float>::infinity();

bool Contains(const std::vector<int32_t>& ids, int32_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

}  // namespace

Sampler::Sampler(int32_t slots, int32_t vocabulary)
    : vocabulary_(vocabulary), slots_(static_cast<size_t>(slots)) {}

void Sampler::Seen::Add(int32_t token, int32_t generated_times) {
  const auto [it, added] = index.emplace(token, static_cast<int32_t>(tokens.size()));
  if (added) {
    tokens.push_back(token);
    generated.push_back(0);
  }
  generated[static_cast<size_t>(it->second)] += generated_times;
}

const Sampler::Slot& Sampler::SlotOf(int32_t slot) const {
  SLUICE_CHECK(slot >= 0 && static_cast<size_t>(slot) < slots_.size()) << "slot " << slot;
  return slots_[static_cast<size_t>(slot)];
}

void Sampler::Start(const SlotStart& start) {
  SLUICE_CHECK(!SlotOf(start.slot).used) << "slot " << start.slot << " is taken";
  Slot& slot = slots_[static_cast<size_t>(start.slot)];
  slot = Slot{true, start.sampling, {}};
  if (!start.sampling.UsesPenalties()) return;
  for (size_t i = 0; i < start.history.size(); ++i) {
    slot.seen.Add(start.history[i], static_cast<int64_t>(i) < start.prompt_tokens ? 0 : 1);
  }
}

void Sampler::Release(int32_t slot) {
  SLUICE_CHECK(SlotOf(slot).used) << "slot " << slot << " is empty";
  slots_[static_cast<size_t>(slot)] = Slot{};
}

size_t Sampler::StagingBytes(std::span<const SampleRow> rows) const {
  size_t history = 0, biases = 0;
  for (const SampleRow& row : rows) {
    const Slot& slot = SlotOf(row.slot);
    history += slot.seen.tokens.size();
    biases += slot.params.logit_bias.size() + slot.params.end_ids.size();
  }
  const size_t n = rows.size();
  // Seven floats and ints, choice and position; seed; two arrays of row limits.
  return 9 * StagingArea::BytesFor<int32_t>(n) + StagingArea::BytesFor<uint64_t>(n) +
         2 * StagingArea::BytesFor<int32_t>(n + 1) + 2 * StagingArea::BytesFor<int32_t>(history) +
         2 * StagingArea::BytesFor<int32_t>(biases);
}

size_t Sampler::StagingBytesMax(int64_t rows, int64_t history) {
  const auto n = static_cast<size_t>(rows);
  return 9 * StagingArea::BytesFor<int32_t>(n) + StagingArea::BytesFor<uint64_t>(n) +
         2 * StagingArea::BytesFor<int32_t>(n + 1) +
         2 * StagingArea::BytesFor<int32_t>(n * static_cast<size_t>(history)) +
         2 * StagingArea::BytesFor<int32_t>(n * kBiasesForeseen);
}

kernels::SamplingBatch Sampler::Prepare(std::span<const SampleRow> rows,
                                        StagingArea& staging) const {
  const size_t n = rows.size();
  const auto temperature = staging.Take<float>(n);
  const auto top_k = staging.Take<int32_t>(n);
  const auto top_p = staging.Take<float>(n);
  const auto min_p = staging.Take<float>(n);
  const auto presence = staging.Take<float>(n);
  const auto frequency = staging.Take<float>(n);
  const auto repetition = staging.Take<float>(n);
  const auto seed = staging.Take<uint64_t>(n);
  const auto choice = staging.Take<uint32_t>(n);
  const auto position = staging.Take<uint32_t>(n);

  kernels::SamplingBatch batch;
  batch.rows = static_cast<int32_t>(n);
  for (size_t i = 0; i < n; ++i) {
    const Slot& slot = SlotOf(rows[i].slot);
    SLUICE_CHECK(slot.used) << "slot " << rows[i].slot << " is empty";
    const SamplingParams& params = slot.params;
    temperature.host[i] = params.temperature;
    top_k.host[i] = params.top_k;
    top_p.host[i] = params.top_p;
    min_p.host[i] = params.min_p;
    presence.host[i] = params.presence_penalty;
    frequency.host[i] = params.frequency_penalty;
    repetition.host[i] = params.repetition_penalty;
    seed.host[i] = params.seed;
    choice.host[i] = params.choice;
    position.host[i] = static_cast<uint32_t>(rows[i].generated);
    batch.all_greedy &= params.temperature == 0.0f;
    batch.any_rules |=
        params.UsesPenalties() || !params.logit_bias.empty() || BansEnds(slot, rows[i]);
  }
  batch.temperature = temperature.device;
  batch.top_k = top_k.device;
  batch.top_p = top_p.device;
  batch.min_p = min_p.device;
  batch.presence = presence.device;
  batch.frequency = frequency.device;
  batch.repetition = repetition.device;
  batch.seed = seed.device;
  batch.choice = choice.device;
  batch.position = position.device;
  if (batch.any_rules) PrepareRules(rows, staging, batch);
  return batch;
}

void Sampler::PrepareRules(std::span<const SampleRow> rows, StagingArea& staging,
                           kernels::SamplingBatch& batch) const {
  size_t histories = 0, biases = 0;
  for (const SampleRow& row : rows) {
    const Slot& slot = SlotOf(row.slot);
    histories += slot.seen.tokens.size();
    biases += slot.params.logit_bias.size() + slot.params.end_ids.size();
  }
  const auto history_begin = staging.Take<int32_t>(rows.size() + 1);
  const auto history_token = staging.Take<int32_t>(histories);
  const auto history_generated = staging.Take<int32_t>(histories);
  const auto bias_begin = staging.Take<int32_t>(rows.size() + 1);
  const auto bias_token = staging.Take<int32_t>(biases);
  const auto bias_value = staging.Take<float>(biases);
  size_t history = 0, bias = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const Slot& slot = SlotOf(rows[i].slot);
    history_begin.host[i] = static_cast<int32_t>(history);
    std::copy(slot.seen.tokens.begin(), slot.seen.tokens.end(),
              history_token.host.begin() + static_cast<ptrdiff_t>(history));
    std::copy(slot.seen.generated.begin(), slot.seen.generated.end(),
              history_generated.host.begin() + static_cast<ptrdiff_t>(history));
    history += slot.seen.tokens.size();

    bias_begin.host[i] = static_cast<int32_t>(bias);
    const bool ban = BansEnds(slot, rows[i]);
    const auto add = [&](int32_t token, float value) {
      SLUICE_CHECK(token >= 0 && token < vocabulary_) << "token " << token;
      bias_token.host[bias] = token;
      bias_value.host[bias++] = value;
    };
    for (const auto& [token, value] : slot.params.logit_bias) {
      if (!ban || !Contains(slot.params.end_ids, token)) add(token, value);
    }
    for (size_t e = 0; ban && e < slot.params.end_ids.size(); ++e) {
      add(slot.params.end_ids[e], kForbidden);
    }
  }
  history_begin.host[rows.size()] = static_cast<int32_t>(history);
  bias_begin.host[rows.size()] = static_cast<int32_t>(bias);
  batch.history_begin = history_begin.device;
  batch.history_token = history_token.device;
  batch.history_generated = history_generated.device;
  batch.bias_begin = bias_begin.device;
  batch.bias_token = bias_token.device;
  batch.bias_value = bias_value.device;
}

void Sampler::Commit(std::span<const SampleRow> rows, std::span<const int32_t> ids) {
  SLUICE_CHECK_EQ(rows.size(), ids.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    Slot& slot = slots_[static_cast<size_t>(rows[i].slot)];
    if (ids[i] >= 0 && slot.params.UsesPenalties()) slot.seen.Add(ids[i], 1);
  }
}

}  // namespace sluice::engine
