#include "engine/simulate/trace_workload.h"

#include <algorithm>
#include <utility>

#include "engine/simulate/samples.h"

namespace sluice::engine {
namespace {

// The finaliser of SplitMix64 (Steele et al. 2014): neighbours give unlike numbers.
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Of what is named by `source`, the token at `place`.
int32_t TokenAt(uint64_t source, int32_t place) {
  const uint64_t hash = Mix(source + static_cast<uint64_t>(place) * 0x9e3779b97f4a7c15u);
  return static_cast<int32_t>(hash % static_cast<uint64_t>(TraceWorkload::kVocabulary));
}

uint64_t BlockSource(int64_t block) { return Mix(static_cast<uint64_t>(block) * 2 + 1); }
uint64_t OwnSource(size_t answer) { return Mix(~(uint64_t{answer} * 2)); }

// What no time of a trace passes, however slowly it is played; a time_point holds it.
constexpr double kSecondsMax = 4e9;

}  // namespace

TraceWorkload::TraceWorkload(Trace trace, double speed, int32_t context_tokens)
    : trace_(std::move(trace)), speed_(speed) {
  for (TraceRequest& request : trace_.requests) {
    if (int64_t{request.prompt_tokens} + request.output_tokens <= context_tokens) continue;
    ++clipped_;
    request.output_tokens = std::min(request.output_tokens, std::max(context_tokens / 2, 1));
    request.prompt_tokens = std::min(request.prompt_tokens, context_tokens - request.output_tokens);
  }
}

// A time of zero is none, so the first one comes later.
Clock::time_point TraceWorkload::Arrival(size_t answer) const {
  const double seconds = std::min(kSecondsMax, trace_.requests[answer].seconds / speed_);
  return Clock::time_point(std::chrono::seconds(1)) + DurationOf(seconds);
}

std::shared_ptr<const GenerateRequest> TraceWorkload::Request(size_t answer,
                                                              Clock::time_point arrival) const {
  const TraceRequest& row = trace_.requests[answer];
  auto request = std::make_shared<GenerateRequest>();
  request->prompt.reserve(static_cast<size_t>(row.prompt_tokens));
  for (int32_t i = 0; i < row.prompt_tokens; ++i) {
    const auto block = static_cast<size_t>(i / kTraceBlockTokens);
    request->prompt.push_back(block < row.blocks.size()
                                  ? TokenAt(BlockSource(row.blocks[block]), i % kTraceBlockTokens)
                                  : TokenAt(OwnSource(answer), i));
  }
  request->stop.max_tokens = row.output_tokens;
  request->stop.ignore_eos = true;
  request->sampling.seed = answer;
  request->arrival = arrival;
  return request;
}

int32_t TraceWorkload::Token(size_t answer, int32_t generated) const {
  return TokenAt(OwnSource(answer), trace_.requests[answer].prompt_tokens + generated);
}

}  // namespace sluice::engine
