#pragma once

#include <cstdint>
#include <istream>
#include <limits>
#include <string>
#include <vector>

#include "engine/base/status.h"

namespace sluice::engine {

// The public forms in which traces of real services come:
//   Mooncake   JSON lines {"timestamp": ms, "input_length", "output_length", "hash_ids": [...]},
//              where equal ids are equal blocks of 512 tokens (Qin et al. 2024, "Mooncake")
//   Azure      CSV with TIMESTAMP, ContextTokens, GeneratedTokens (Patel et al. 2024, "Splitwise")
//   BurstGPT   CSV with Timestamp (seconds), Request tokens, Response tokens (Wang et al. 2024)
enum class TraceFormat : uint8_t { kAuto, kMooncake, kAzure, kBurstGpt };

const char* NameOf(TraceFormat format);

inline constexpr int32_t kTraceBlockTokens = 512;

struct TraceRequest {
  double seconds = 0;  // of its arrival
  int32_t prompt_tokens = 0;
  int32_t output_tokens = 0;
  std::vector<int64_t> blocks;  // of the prompt, kTraceBlockTokens each; empty: not told
};

struct TraceOptions {
  TraceFormat format = TraceFormat::kAuto;                       // kAuto: told from the first line
  int64_t requests_max = 0;                                      // the first so many; 0: all
  double seconds_max = std::numeric_limits<double>::infinity();  // after the first request
};

struct Trace {
  TraceFormat format = TraceFormat::kAuto;
  std::vector<TraceRequest> requests;  // by arrival; the first one arrives at 0
  int64_t skipped = 0;                 // rows without a prompt or an answer: calls that failed
};

// Reads a trace, which may be anything: InvalidArgument names `name`, the line, the field and its
// value. Its lines are bounded, and so is the memory that it takes.
absl::StatusOr<Trace> ReadTrace(std::istream* in, const std::string& name,
                                const TraceOptions& options);

}  // namespace sluice::engine
