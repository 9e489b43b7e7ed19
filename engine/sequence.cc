#include "engine/sequence.h"

#include <algorithm>

#include "engine/plan/step_plan.h"

namespace sluice::engine {
namespace {

std::vector<int32_t> Sorted(std::span<const int32_t> ids) {
  std::vector<int32_t> sorted(ids.begin(), ids.end());
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  return sorted;
}

}  // namespace

Sequence::Sequence(uint64_t id_in, std::shared_ptr<const GenerateRequest> request_in,
                   int32_t choice_in, std::span<const int32_t> end_ids, int32_t context_tokens)
    : id(id_in),
      request(std::move(request_in)),
      choice(choice_in),
      tokens_(request->prompt),
      end_ids_(request->stop.ignore_eos ? std::vector<int32_t>() : Sorted(end_ids)),
      stop_ids_(Sorted(request->stop.token_ids)),
      // The last token needs no place for keys and values, but counts as part of the context.
      generated_max_(std::min(request->stop.max_tokens, context_tokens - prompt_tokens())) {}

void Sequence::CopyTokens(int32_t first, int32_t count, std::vector<int32_t>* out) const {
  const int32_t end = first + count;
  if (first < known())
    out->insert(out->end(), tokens_.begin() + first, tokens_.begin() + std::min(end, known()));
  if (end > known()) out->push_back(kLastSampledToken);
}

SamplingParams Sequence::Sampling() const {
  SamplingParams sampling = request->sampling;
  sampling.choice = static_cast<uint32_t>(choice);
  sampling.min_tokens = request->stop.min_tokens;
  sampling.end_ids.clear();
  if (sampling.min_tokens > 0)
    std::set_union(end_ids_.begin(), end_ids_.end(), stop_ids_.begin(), stop_ids_.end(),
                   std::back_inserter(sampling.end_ids));
  return sampling;
}

void Sequence::Append(int32_t token, SequenceEvent* event) {
  const bool may_stop = generated() >= request->stop.min_tokens;
  tokens_.push_back(token);
  event->token = token;
  if (may_stop && std::binary_search(end_ids_.begin(), end_ids_.end(), token)) {
    event->finish = FinishReason::kStop;
    event->hidden = true;
  } else if (may_stop && std::binary_search(stop_ids_.begin(), stop_ids_.end(), token)) {
    event->finish = FinishReason::kStop;
    event->hidden = true;
    event->stop_token = token;
  } else if (generated() >= generated_max_) {
    event->finish = FinishReason::kLength;
  }
}

}  // namespace sluice::engine
