#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "engine/plan/sampling_params.h"

namespace sluice::engine {

using Clock = std::chrono::steady_clock;
inline double Seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }
inline Clock::duration DurationOf(double seconds) {
  return std::chrono::round<Clock::duration>(std::chrono::duration<double>(seconds));
}

// When an answer ends, besides by its end-of-turn tokens.
struct StopParams {
  int32_t max_tokens = 16;           // generated tokens; the context's end may come first
  int32_t min_tokens = 0;            // before which nothing but max_tokens ends the answer
  bool ignore_eos = false;           // end-of-turn tokens are tokens like others
  std::vector<int32_t> token_ids;    // more tokens that end the answer
  std::vector<std::string> strings;  // text that ends the answer
  bool include_stop_string = false;  // keep the matched string in the text
  bool skip_special_tokens = true;   // leave control tokens out of the text
};

// What a caller asks for. Immutable once submitted, and shared.
struct GenerateRequest {
  std::string id;
  std::vector<int32_t> prompt;  // at least one token
  SamplingParams
      sampling;  // choice, min_tokens and end_ids are filled in per sequence by the engine
  StopParams stop;
  int32_t n = 1;  // answers
  // Only requests of equal salt share what is computed of equal beginnings.
  std::string cache_salt;
  std::string tenant;    // whose share of the service it takes; empty: nobody's in particular
  int32_t priority = 0;  // a lower number is served first, and may preempt
  // When the answer is of no use any more: it ends then. Default: never.
  Clock::time_point deadline = Clock::time_point::max();
  // Seconds; 0: its tenant's or else the server's. From arrival to the first token: those whose
  // time runs out are served first. Between two tokens: steps keep to it while it decodes.
  double first_token_target = 0;
  double inter_token_target = 0;
  Clock::time_point arrival;  // when the request came in, for the latency figures
};

enum class FinishReason : uint8_t {
  kNone,       // goes on
  kStop,       // an end token, a stop token or a stop string
  kLength,     // max_tokens or the context's end
  kCancelled,  // the caller left
  kError,      // OutputChunk::error says why
  kExpired,    // the request's deadline passed
};

// What ended an answer besides its end token and its length: a stop token or a stop string.
using StopReason = std::variant<std::monostate, int32_t, std::string>;

// Times of one sequence, all from the engine's clock; zero when it never came so far.
struct SequenceTimes {
  Clock::time_point arrival;
  Clock::time_point scheduled;  // first planned
  Clock::time_point first_token;
  Clock::time_point last_token;
};

// What has become of one answer since the last chunk. Every answer ends with exactly one chunk
// whose `finish` is not kNone, whatever happens.
struct OutputChunk {
  int32_t choice = 0;
  std::string text;  // valid UTF-8, may be empty
  std::vector<int32_t>
      token_ids;  // the tokens taken in since the last chunk (their text may come later)
  FinishReason finish = FinishReason::kNone;
  StopReason stop_reason;
  std::string error;
  int32_t generated_tokens = 0;  // of this answer so far
  int32_t cached_tokens = 0;     // of the prompt, not computed but found in memory
  SequenceTimes times;
};

// Where a request's chunks go: implemented by each wire dialect's stream. Called on the output
// thread; must return at once and not throw. A sink that can't keep up merges chunks or cancels its
// request.
class OutputSink {
 public:
  virtual ~OutputSink() = default;
  virtual void OnChunk(OutputChunk chunk) = 0;
};

}  // namespace sluice::engine
